"""The one place that says how numba compiles.

Every kernel is decorated with :func:`kernel`. Signatures are lazy, so importing compiles
nothing; machine code is cached on disk; the interpreter lock is released so that threads can
run kernels side by side. Division by zero follows IEEE rules (numpy's error model): the
callers check their inputs, a branch per division would only block vectorisation.

Compiled files are marked by an underscore (``star/_solve.py``) and lie beside the prose that uses
them. numba judges its disk cache by the time stamp of the file that holds a function, and does not
see that a kernel it calls, in another file, has changed. We therefore stamp every cache with a hash
of the names and contents of the file and of all compiled files that it imports.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config

from asterism.numerics.numba_speed import (
    compare_settings_quickly,
    leave_messages_plain,
    look_for_live_variables_once,
    pause_garbage_collection,
    remember_types_of_operations,
)

_PACKAGE = Path(__file__).resolve().parent.parent

if os.path.exists(config._config_fname):
    # numba has read settings from the working directory. They can name the folder of compiled code,
    # and who can write there can have code run. The command line never reads them; workers of a
    # cluster import numba wherever they were started. Every compilation would read them again.
    config._config_fname = str(_PACKAGE / "no settings of numba")
    config.reload_config()


#: an import of a compiled file, whole or by its folder
_IMPORT = re.compile(
    r"^\s*from asterism((?:\.\w+)*\._[a-z]\w*) import"
    r"|^\s*from asterism((?:\.\w+)*) import (_[a-z]\w*)"
    r"|^\s*import asterism((?:\.\w+)*\._[a-z]\w*)",
    re.MULTILINE,
)


def files_behind(path: Path, package: Path) -> set[Path]:
    """A compiled file and all compiled files that it imports, directly or not."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        here = waiting.pop()
        if here in found or not here.is_file():
            continue
        found.add(here)
        for whole, folder, name, plain in _IMPORT.findall(here.read_text(encoding="utf-8")):
            module = whole or plain or f"{folder}.{name}"
            waiting.append(package.joinpath(*module.strip(".").split(".")).with_suffix(".py"))
    return found


def stamp_of(path: Path, package: Path = _PACKAGE) -> str:
    """One word for the state of a compiled file and of all that it calls: names and contents."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted({*files_behind(path, package), Path(__file__).resolve()}):
        digest.update(f"{file.name}\0".encode())
        digest.update(hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()


@cache
def _stamp(filename: str) -> str:
    return stamp_of(Path(filename).resolve())


def _probe() -> None:
    """Never compiled: numba tells by it whether there is a place for its cache."""


def _find_place_for_cache() -> None:
    """Where neither the package nor the home folder can be written: a private temporary folder.

    numba would refuse to compile anything. Code is loaded from there again, so that the folder must
    be the user's own; where it is somebody else's, the next best is one for this process alone.
    """
    try:
        numba.njit(cache=True)(_probe)
        return
    except RuntimeError:
        pass
    folder = Path(tempfile.gettempdir()) / f"asterism-cache-{_user()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        is_own = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        is_own = is_own and status.st_uid == _user()
    except OSError:
        is_own = False
    if not is_own:
        folder = Path(tempfile.mkdtemp(prefix="asterism-cache-"))
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]


def _user() -> int:
    """The number of the user (zero where there are none)."""
    return os.getuid() if hasattr(os, "getuid") else 0


_find_place_for_cache()


def _stamp_cache(dispatcher: Any) -> None:
    """Let a kernel's cache belong to the present state of its file and of what that calls.

    The stamp is a part of the version as well: numba looks at that first, and would fail on an old
    index that mentions types which are gone.
    """
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp") and hasattr(cache_file, "_version"):
        stamp = _stamp(dispatcher.py_func.__code__.co_filename)
        cache_file._source_stamp = stamp
        cache_file._version = f"{numba.__version__} {stamp}"


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
        return _asking_first(dispatcher) if settings["cache"] else dispatcher

    return decorate if function is None else decorate(function)


BEFORE_COMPILING: list[Callable[[Any], None]] = []
"""Called with a kernel before it is compiled or loaded: to wait for a process that compiles it."""


def _asking_first(dispatcher: Any) -> Any:
    compile_now = getattr(dispatcher, "compile", None)
    if compile_now is None:
        return dispatcher

    def compile_later(signature: Any) -> Any:
        for ask in BEFORE_COMPILING:
            ask(dispatcher)
        return compile_now(signature)

    dispatcher.compile = compile_later
    return dispatcher


_PRIVATE: set[str] = set()
"""Names of functions that exist only as a part of others."""


def _compile_private_code_once() -> None:
    """Let numba neither optimise nor translate what only other kernels call.

    numba optimises every function by itself, and then once more inside each of its callers, and
    theirs. The code that counts is the outermost one. Where numba's internals are not what we know,
    nothing is changed: compiling takes longer then.
    """
    try:
        from numba.core.codegen import JITCodeLibrary, JITCPUCodegen

        optimise = JITCodeLibrary._optimize_final_module
        translate = JITCodeLibrary._finalize_final_module
        set_environment = JITCPUCodegen.set_env
    except (ImportError, AttributeError):
        return

    def optimise_if_public(self: Any) -> None:
        if self.name not in _PRIVATE:
            optimise(self)

    def translate_if_public(self: Any) -> None:
        if self.name in _PRIVATE:
            self._finalized = True
        else:
            translate(self)

    def set_environment_if_public(self: Any, name: str, environment: Any) -> None:
        if self._engine.get_global_value_address(name):
            set_environment(self, name, environment)

    JITCPUCodegen.set_env = set_environment_if_public  # type: ignore[method-assign]
    JITCodeLibrary._optimize_final_module = optimise_if_public  # type: ignore[method-assign]
    JITCodeLibrary._finalize_final_module = translate_if_public  # type: ignore[method-assign]


_compile_private_code_once()
remember_types_of_operations()
compare_settings_quickly()
pause_garbage_collection()
look_for_live_variables_once()
leave_messages_plain()


def _for_any_value(dispatcher: Any) -> Any:
    """Compile a function once for all numbers, not once more for each that is written out.

    numba compiles ``f(x, 1)`` and ``f(x, n)`` apart. What is gained by a known number is gained
    anyway where the optimiser puts the function into its caller.
    """
    if not hasattr(dispatcher, "get_call_template"):
        return dispatcher
    template_of = dispatcher.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        plain = tuple(numba.types.unliteral(a) for a in args)
        return template_of(plain, {k: numba.types.unliteral(v) for k, v in kws.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def inner(
    function: Callable[..., Any] | None = None, *, allocates: bool = False, **options: Any
) -> Any:
    """Like :func:`kernel`, for functions that only other kernels call.

    Python cannot call them: the wrappers that would unpack their many arrays are left out. Nor do
    they count references to arrays, which their callers hold anyway, unless they create some
    (``allocates``). Both together halve the time the whole set takes to compile, and views cost
    next to nothing.
    """
    settings = {
        "cache": False,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "_nrt": allocates,
        **options,
    }

    def decorate(f: Callable[..., Any]) -> Any:
        # numba knows a piece of code by this name; it must belong to nothing else
        f.__qualname__ = f"{f.__module__}.{f.__qualname__}"
        _PRIVATE.add(f.__qualname__)
        return _for_any_value(kernel(f, **settings))

    return decorate if function is None else decorate(function)


def inlined(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Like :func:`inner`, for what a sweep calls per node: always a part of its callers' code.

    Passing bundles of arrays from function to function takes longer than updating a node that has
    few steps.
    """
    return inner(function, forceinline=True, **options)


def view(function: Callable[..., Any]) -> Any:
    """For small functions that return a view of an array: compiled as part of their callers."""
    return kernel(function, inline="always", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def unit(
    function: Callable[..., Any] | None = None, *, allocates: bool = False, **options: Any
) -> Any:
    """For functions that other kernels call by their address (:func:`separate`), Python never."""
    settings = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": allocates, **options}
    return kernel(function, **settings)


def separate(dispatcher: Any, arguments: tuple[Any, ...], slot: int, returns: Any = None) -> Any:
    """A way to call a kernel without making it a part of the caller: by its address.

    What is called this way is compiled once, by itself, however many kernels call it, and only if
    somebody needs it; the callers are compiled without it. ``arguments`` and ``returns`` are its
    types. A caller passes the kernel's entry in the table that :func:`addresses` gives, and the
    arguments as one tuple.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda address, values: dispatcher(*values)
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    UNITS[slot] = (dispatcher, arguments)
    result_type = types.none if returns is None else returns

    @intrinsic
    def call(typing_context: Any, address: Any, values: Any) -> Any:
        given = tuple(values.types) if hasattr(values, "types") else (values.dtype,) * values.count
        if given != arguments:
            raise TypeError(f"{dispatcher.py_func.__name__} takes {arguments}, not {given}")

        def generate(context: Any, builder: Any, signature: Any, arguments_: Any) -> Any:
            function_type = context.call_conv.get_function_type(result_type, arguments)
            pointer = builder.inttoptr(arguments_[0], function_type.as_pointer())
            parts = cgutils.unpack_tuple(builder, arguments_[1])
            status, result = context.call_conv.call_function(
                builder, pointer, result_type, arguments, parts
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return context.get_dummy_value() if returns is None else result

        return result_type(address, values), generate

    return call


UNITS: dict[int, tuple[Any, tuple[Any, ...]]] = {}
"""By slot, the kernels that are called by address, with the types of their arguments."""
ADDRESSES = np.zeros(16, dtype=np.int64)
"""Where they lie in this process, by slot; zero if not compiled yet."""


def addresses(*slots: int) -> Any:
    """The table of addresses with these slots in it; compiles what is missing.

    Without the compiler nothing has an address.
    """
    for slot in slots:
        if ADDRESSES[slot] == 0 and slot in UNITS:
            dispatcher, arguments = UNITS[slot]
            dispatcher.compile(arguments)
            result = dispatcher.overloads[arguments]
            ADDRESSES[slot] = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return ADDRESSES


def cache_folder(dispatcher: Any) -> Path:
    """Where the machine code of a kernel is kept."""
    return Path(dispatcher.stats.cache_path)


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
