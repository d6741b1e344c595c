"""The content of ``run.json``: what a run recorded, with versions and sizes, as plain JSON."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asterism.errors import AsterismError
from asterism.results.manifest import FORMAT, FORMAT_VERSION
from asterism.results.run import Run


def complete_record(run: Run, notices: list[str]) -> dict[str, Any]:
    """Everything that run.json says, but for the list of files."""
    record: dict[str, Any] = {
        "format": FORMAT,
        "converged": None,
        "stop_reason": None,
        "seed": None,
        "data_hash": None,
        "settings": {},
        **run.run,
        "format_version": FORMAT_VERSION,
        "versions": {**versions(), **run.run.get("versions", {})},
        "n_nodes": len(run.network.nodes),
        "n_edges": int(sum(map(len, run.network.parents.values()))),
        "notices": notices,
    }
    plain: dict[str, Any] = as_json(record)
    return plain


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    from asterism import __version__

    return {
        "asterism": __version__,
        **{name: metadata.version(name) for name in ("numpy", "numba", "scipy")},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def as_json(value: Any) -> Any:
    """Anything as JSON: objects that describe themselves by ``to_dict`` do so, others as text.

    JSON knows neither infinity nor NaN: the first becomes text and the second null.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return as_json(value.tolist())
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, pd.DataFrame):
        return {str(c): as_json(value[c].to_dict()) for c in value.columns}
    if hasattr(value, "predecessors"):
        return [[str(parent), str(child)] for parent, child in value.edges()]
    if hasattr(value, "to_dict") and not isinstance(value, type):
        try:
            return as_json(value.to_dict())
        except AsterismError:  # an emission of the user's own need not be writable
            return repr(value)
    return repr(value)
