"""The one place that says how numba compiles.

Every kernel is decorated with :func:`kernel`. Signatures are lazy, so importing compiles
nothing; machine code is cached on disk; the interpreter lock is released so that threads can
run kernels side by side. Division by zero follows IEEE rules (numpy's error model): the
callers check their inputs, a branch per division would only block vectorisation.

Compiled files are marked by an underscore (``star/_solve.py``) and lie beside the prose that uses
them. numba judges its disk cache by the time stamp of the file that holds a function, and does not
see that a kernel it calls, in another file, has changed. We therefore stamp every cache with a hash
of the names and contents of all compiled files of the package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_PACKAGE = Path(__file__).resolve().parent.parent


def stamp_of(package: Path) -> str:
    """One word for the state of all compiled files below a folder: their names and contents."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(package.rglob("_[!_]*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode())
        digest.update(hashlib.blake2b(path.read_bytes()).digest())
    return digest.hexdigest()


_STAMP = stamp_of(_PACKAGE)


def _stamp_cache(dispatcher: Any) -> None:
    """Let a kernel's cache belong to the present state of all compiled files.

    The stamp is a part of the version as well: numba looks at that first, and would fail on an old
    index that mentions types which are gone.
    """
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp") and hasattr(cache_file, "_version"):
        cache_file._source_stamp = _STAMP
        cache_file._version = f"{numba.__version__} {_STAMP}"


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function with the project's options; ``options`` override them."""
    settings: dict[str, Any] = {
        "cache": True,
        "nogil": True,
        "error_model": "numpy",
        "fastmath": {"contract"},
    }
    settings.update(options)

    def decorate(f: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**settings)(f)
        _stamp_cache(dispatcher)
        return dispatcher

    return decorate if function is None else decorate(function)


def inner(
    function: Callable[..., Any] | None = None, *, allocates: bool = False, **options: Any
) -> Any:
    """Like :func:`kernel`, for functions that only other kernels call.

    Python cannot call them: the wrappers that would unpack their many arrays are left out. Nor do
    they count references to arrays, which their callers hold anyway, unless they create some
    (``allocates``). Both together halve the time the whole set takes to compile, and views cost
    next to nothing.
    """
    settings = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": allocates, **options}
    return kernel(function, **settings)


def inlined(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Like :func:`inner`, for what a sweep calls per node: always a part of its callers' code.

    Passing bundles of arrays from function to function takes longer than updating a node that has
    few steps.
    """
    return inner(function, forceinline=True, **options)


def view(function: Callable[..., Any]) -> Any:
    """For small functions that return a view of an array: compiled as part of their callers."""
    return kernel(function, inline="always", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def is_on_disk(dispatcher: Any) -> bool:
    """Whether machine code of a kernel, as it is now, waits in the cache (or there is none)."""
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    load = getattr(cache_file, "_load_index", None)
    if load is None:
        return True
    try:
        return bool(load())
    except OSError:
        return True
