"""Named tuples of arrays that kernels hand on as one pointer.

numba passes a named tuple of arrays as some hundred separate numbers. :func:`bundle` puts them into
memory once; kernels then pass a pointer and read the fields they use. Functions take a bundle and a
named tuple alike: both have the same attributes. That makes calls cheap and functions quick to
compile.

Whoever makes a bundle of arrays that it allocated calls :func:`keep` on them at its end: numba
releases what is not mentioned any more.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic


class Bundle(types.Type):
    """A pointer to a named tuple of type ``fields``."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields
        super().__init__(f"Bundle({fields.name})")


@register_default(Bundle)
class _BundleModel(models.OpaqueModel):
    """An address, as far as LLVM is concerned."""


@infer_getattr
class _Attributes(AttributeTemplate):
    key = Bundle

    def generic_resolve(self, bundle: Any, name: str) -> Any:  # type: ignore[override]
        names = bundle.fields.fields
        return bundle.fields.types[names.index(name)] if name in names else None


def _load(builder: Any, place: Any, kind: Any) -> Any:
    """Load a number, or a struct number by number: only what is used is then really read."""
    if isinstance(kind, (ir.LiteralStructType, ir.ArrayType)):
        count = len(kind.elements) if isinstance(kind, ir.LiteralStructType) else kind.count
        value = ir.Constant(kind, ir.Undefined)
        for i in range(count):
            part = kind.elements[i] if isinstance(kind, ir.LiteralStructType) else kind.element
            at = cgutils.gep_inbounds(builder, place, 0, i)
            value = builder.insert_value(value, _load(builder, at, part), i)
        return value
    return builder.load(place)


@lower_getattr_generic(Bundle)
def _read_field(context: Any, builder: Any, bundle: Bundle, value: Any, name: str) -> Any:
    index = bundle.fields.fields.index(name)
    kind = context.get_value_type(bundle.fields)
    pointer = builder.bitcast(value, kind.as_pointer())
    place = cgutils.gep_inbounds(builder, pointer, 0, index)
    field = bundle.fields.types[index]
    return impl_ret_borrowed(
        context, builder, field, _load(builder, place, context.get_value_type(field))
    )


@intrinsic
def _bundle(typing_context: Any, values: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        slot = cgutils.alloca_once_value(builder, arguments[0])
        return builder.bitcast(slot, cgutils.voidptr_t)

    return Bundle(values)(values), generate


@intrinsic
def _keep(typing_context: Any, values: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_dummy_value()

    return types.none(values), generate


bundle: Any = _bundle
keep: Any = _keep
if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    bundle = keep = partial(cast, Any)  # the named tuple itself
