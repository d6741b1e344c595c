"""Makes numba compile faster, without changing what it compiles.

numba looks up the type of every single operation anew, by trying all implementations it knows, and
compares its own settings field by field for each of them. Both are remembered here. Where numba's
internals are not what we know, nothing is changed: compiling then takes longer.
"""

from __future__ import annotations

from typing import Any


def remember_types_of_operations() -> None:
    """Look up what an operation on numbers and arrays gives only once."""
    try:
        from numba.core import types
        from numba.core.types.functions import BaseFunction

        look_up = BaseFunction.get_call_type
        plain = (types.Number, types.Boolean, types.Array, types.BaseTuple, types.SliceType)
    except (ImportError, AttributeError):
        return

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or not all(isinstance(a, plain) for a in args):
            return look_up(self, context, args, kws)
        known = self.__dict__.setdefault("_known_operations", {})
        found = known.get((context, args))
        if found is None:
            found = look_up(self, context, args, kws)
            # what numba compiles from source may depend on the settings at hand: not remembered
            keys = getattr(self, "_impl_keys", {})
            if found is not None and keys.get(found.args) is self.typing_key:
                known[context, args] = found
        return found

    BaseFunction.get_call_type = get_call_type  # type: ignore[method-assign]


def compare_settings_quickly() -> None:
    """Two sets of compiler settings are mostly the same object, or hold the same values."""
    try:
        from numba.core.targetconfig import TargetConfig

        compare: Any = TargetConfig.__eq__
    except (ImportError, AttributeError):
        return

    def is_equal(self: Any, other: Any) -> Any:
        if self is other:
            return True
        if isinstance(other, TargetConfig) and self._values == other._values:
            return True
        return compare(self, other)

    def hashed(self: Any) -> int:
        return hash(type(self))

    TargetConfig.__eq__ = is_equal  # type: ignore[method-assign]
    TargetConfig.__hash__ = hashed  # type: ignore[method-assign]
