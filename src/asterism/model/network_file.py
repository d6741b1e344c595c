"""Networks as JSON files: a versioned format, written atomically, read with clear refusals.

Rates are nested lists in the shape of the arrays, diagonals included; numbers are written so that
they read back to the same bits. ``docs/`` describes the fields.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asterism.data.files import write_text
from asterism.data.json_files import read_json
from asterism.errors import ModelError
from asterism.model.rates import SummaryRates

FORMAT = "asterism-network"
VERSION = 1


def rates_to_json(rates: Any) -> Any:
    """A node's rates as lists; None for a node whose path is always given by the data."""
    if rates is None:
        return None
    if isinstance(rates, SummaryRates):
        names = rates.parents if rates.parents is not None else ()
        weights = {name: list(w) for name, w in zip(names, rates.weights)}
        return {"weights": weights, "table": rates.table.tolist()}
    return rates.tolist()


def rates_from_json(node: str, rates: Any) -> Any:
    """The inverse of :func:`rates_to_json`."""
    if isinstance(rates, dict):
        if not {"weights", "table"} <= set(rates):
            raise ModelError(f"The summary rates of node {node!r} need 'weights' and 'table'.")
        return SummaryRates(rates["weights"], rates["table"])
    return rates


def checked_content(content: Any, where: str) -> dict[str, Any]:
    """Refuse anything that is not a network of a version this release can read."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError(f"{where} is not a network file: its 'format' is not {FORMAT!r}.")
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelError(f"{where} has no valid format version, got {version!r}.")
    if version > VERSION:
        raise ModelError(
            f"{where} has format version {version}, but this release reads versions up to "
            f"{VERSION}; update asterism to open it."
        )
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or not all(
        isinstance(n, dict) and {"name", "states", "parents", "rates"} <= set(n) for n in nodes
    ):
        raise ModelError(
            f"{where} needs a list 'nodes' whose entries have name, states, parents and rates."
        )
    return content


def read_network(path: str | Path) -> Any:
    """The content of a network file, or a sentence that says why it cannot be read."""
    return read_json(path, "network file", ModelError)


def write_network(path: str | Path, content: Any) -> None:
    """Atomically."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
