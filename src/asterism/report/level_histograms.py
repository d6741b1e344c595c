"""Histograms of measurements with the levels that were counted in them, one small drawing per node.

Plain SVG text, like the other drawings that Python makes. A reader sees at once whether the levels
lie where the measurements heap up, and how clearly their number won.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from numpy.typing import NDArray

_WIDTH, _HEIGHT, _BOTTOM = 220.0, 96.0, 16.0
_MOST_BINS = 30
#: nodes that are drawn; the least clear come first
MOST_NODES = 12


def level_histograms(
    levels: Mapping[str, Any] | None, observations: pd.DataFrame | None
) -> Markup | None:
    """Drawings of the nodes in ``run.json``'s "levels"; None where no levels were counted."""
    if not levels or observations is None:
        return None
    order = sorted(levels, key=lambda node: (levels[node].get("probability", 1.0), node))
    parts = []
    for node in order[:MOST_NODES]:
        own = observations.loc[observations["node"].astype(str) == node, "value"]
        values = pd.to_numeric(own, errors="coerce").to_numpy(dtype=np.float64)
        values = values[np.isfinite(values)]
        if len(values):
            parts.append(_one(node, levels[node], values))
    return Markup("\n".join(parts)) if parts else None


def _one(node: str, record: Mapping[str, Any], values: NDArray[np.float64]) -> str:
    means = [float(mean) for mean in record["means"]]
    how = f", probability {record['probability']:.2f}" if record.get("chosen", True) else ", given"
    title = f"{escape(node)}: {record['levels']} levels{how}"
    n_bins = int(min(_MOST_BINS, max(6, np.sqrt(len(values)))))
    low, high = min(float(values.min()), *means), max(float(values.max()), *means)
    high = high if high > low else low + 1.0
    counts, edges = np.histogram(values, bins=n_bins, range=(low, high))
    bottom, top = _HEIGHT - _BOTTOM, 6.0

    def place(value: float) -> float:
        return 4.0 + (value - low) / (high - low) * (_WIDTH - 8.0)

    lines = []
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        height = (bottom - top) * count / counts.max()
        lines.append(
            f'<rect x="{place(left):.1f}" y="{bottom - height:.1f}" '
            f'width="{place(right) - place(left):.1f}" height="{height:.1f}" '
            'fill="currentColor" opacity="0.3"/>'
        )
    for mean in means:
        x = place(mean)
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="#0072B2" '
            f'stroke-width="2"/><text x="{min(max(x, 14.0), _WIDTH - 14.0):.1f}" '
            f'y="{_HEIGHT - 4}" text-anchor="middle" font-size="11" fill="currentColor">'
            f"{mean:.3g}</text>"
        )
    return (
        f"<figure><figcaption>{title}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" width="{_WIDTH:g}" role="img" '
        f'aria-label="Measurements of {title}">{"".join(lines)}</svg></figure>'
    )
