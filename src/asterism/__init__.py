"""Asterism: who influences whom, learned from sparse, irregular, noisy, incomplete time series.

Names are loaded on first use, so that ``import asterism`` stays fast and compiles nothing. They are
listed in ``__init__.pyi``, which editors and type checkers read, with the modules that define them.
``docs/map.md`` says where everything is.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from asterism.model.emission_kinds import EMISSION_KINDS

__version__ = "0.2.0"

#: public name -> module that defines it, or package whose module it is
_HOMES = {
    alias.name: str(node.module)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
} | {name: module for module, name in EMISSION_KINDS.values()}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'asterism' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    if not hasattr(home, name):
        importlib.import_module(f"{_HOMES[name]}.{name}")
    globals()[name] = getattr(home, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
