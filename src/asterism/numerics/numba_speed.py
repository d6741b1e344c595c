"""Makes numba compile faster, without changing what it compiles.

numba looks up the type of every single operation anew, by trying all implementations it knows, and
compares its own settings field by field for each of them. Both are remembered here. It also works
out again and again which variables are alive, colours messages of errors that nobody sees, and
creates so many objects that Python's garbage collector takes a tenth of the time. Where numba's
internals are not what we know, nothing is changed: compiling then takes longer.
"""

from __future__ import annotations

import gc
import threading
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


def pause_garbage_collection() -> None:
    """Collect no garbage while a function is compiled: hardly any of its many objects is any."""
    try:
        from numba.core import event

        register: Any = event.register
    except (ImportError, AttributeError):
        return

    class Pause(event.Listener):
        lock = threading.Lock()
        depth = 0
        was_on = False

        def on_start(self, event: Any) -> None:
            with self.lock:
                if self.depth == 0:
                    self.was_on = gc.isenabled()
                    gc.disable()
                self.depth += 1

        def on_end(self, event: Any) -> None:
            with self.lock:
                self.depth -= 1
                if self.depth == 0 and self.was_on:
                    gc.enable()

    register("numba:compile", Pause())


def look_for_live_variables_once() -> None:
    """Leave out a list of variables that only generators and interpreted functions need.

    numba makes it after each of nine passes. Only for our own functions, which are neither.
    """
    try:
        from numba.core import postproc, transforms

        process = postproc.PostProcessor.run
        lifetime_of: Any = postproc.VariableLifetime
        put_in_order: Any = transforms.canonicalize_cfg
    except (ImportError, AttributeError):
        return

    def run(self: Any, emit_dels: bool = False, *others: Any, **more: Any) -> None:
        code = self.func_ir
        module = getattr(getattr(code, "func_id", None), "modname", "")
        if emit_dels or code.is_generator or not module.startswith("asterism."):
            process(self, emit_dels, *others, **more)
            return
        code.blocks = put_in_order(code.blocks)
        code.variable_lifetime = lifetime_of(code.blocks)
        code.generator_info = None

    postproc.PostProcessor.run = run  # type: ignore[method-assign]


def leave_messages_plain() -> None:
    """Do not colour the messages of errors, thousands of which numba raises and catches itself."""
    try:
        from numba.core.errors import termcolor

        scheme: Any = type(termcolor())
        scheme._markup  # noqa: B018  # there only where messages are coloured
    except (ImportError, AttributeError):
        return

    def plain(self: Any, message: str, *colours: Any, **more: Any) -> str:
        return message

    scheme._markup = plain
