"""Makes numba compile faster, without changing what it compiles.

numba looks up the type of every single operation anew, by trying all implementations it knows, and
compares its own settings field by field for each of them. Both are remembered here, and garbage is
collected less often meanwhile. Where numba's internals are not what we know, nothing is changed:
compiling then takes longer.
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


def collect_garbage_seldom_while_compiling() -> None:
    """Compiling makes very many objects that live on: Python need not search them for cycles."""
    try:
        from numba.core import event

        start: Any = event.register
        listener: Any = event.Listener
    except (ImportError, AttributeError):
        return
    seldom = SeldomCollected()

    class Compiling(listener):  # type: ignore[misc]
        """Told by numba when it begins and ends to compile a function, callees inside callers."""

        def on_start(self, _: Any) -> None:
            seldom.begin()

        def on_end(self, _: Any) -> None:
            seldom.end()

    start("numba:compile", Compiling())


class SeldomCollected:
    """Between the first ``begin`` and the last ``end`` garbage is collected less often."""

    #: objects made between two searches for cycles, and how often older ones are looked at
    SELDOM = (50_000, 20, 50)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._usual = gc.get_threshold()

    def begin(self) -> None:
        """What is there already is not looked at either."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._usual = gc.get_threshold()
                gc.freeze()
                gc.set_threshold(*self.SELDOM)

    def end(self) -> None:
        """As before, unless somebody has changed the settings meanwhile."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                gc.unfreeze()
                if gc.get_threshold() == self.SELDOM:
                    gc.set_threshold(*self._usual)
