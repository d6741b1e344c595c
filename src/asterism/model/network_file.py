"""Networks as JSON files: a versioned format, written atomically, read with clear refusals.

Rates are nested lists in the shape of the arrays, diagonals included; numbers are written so that
they read back to the same bits. ``docs/`` describes the fields.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

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


def read_json(path: str | Path) -> Any:
    """The content of a JSON file, or a sentence that says why it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelError(f"There is no network file {str(path)!r}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"Cannot read the network file {str(path)!r}: {error}.") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelError(f"{str(path)!r} is not a network file: not JSON ({error}).") from None


def write_json(path: str | Path, content: Any) -> None:
    """Write next to the target, then rename: a reader never sees half a file."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(
        prefix=f".{target.name}.", suffix=".tmp", dir=target.parent
    )
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, allow_nan=False)
            file.write("\n")
        # mkstemp makes a private file; give it the permissions an ordinary new file would have
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
