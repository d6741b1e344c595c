"""The network as a figure: boxes for nodes, widths for probabilities, line ends for effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from asterism.data.columns import require_columns
from asterism.report.figure_style import BLUE, GREY, ORANGE, axes_or_new
from asterism.report.graph_layout import positions
from asterism.results.edge_effects import LOWERS, MIXED, NONE, RAISES, effect
from asterism.results.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from asterism.model.network import Network

OUTSIDE = "outside"

#: colour and line end: what the colour says, the end says as well
EFFECT_STYLE = {
    RAISES: (BLUE, "-|>"),
    LOWERS: (ORANGE, "|-|"),
    MIXED: (GREY, "-|>"),
    NONE: (GREY, "-|>"),
    OUTSIDE: ("#9aa3ad", "-|>"),
}

IN_LEGEND = {
    RAISES: "raises",
    LOWERS: "lowers",
    MIXED: "mixed effect",
    NONE: "no clear effect",
    OUTSIDE: "not in the graph",
}


def graph(
    network: Network | Run,
    edges: pd.DataFrame | None = None,
    *,
    threshold: float = 0.5,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the network; line widths are probabilities, ends show what a parent does.

    ``edges`` is the long table (parent, child, probability): edges from ``threshold`` on are
    drawn, dashed when they are not in the graph. Without it the network's own edges are. The
    legend explains what is drawn and names the threshold.
    """
    from matplotlib.patches import FancyArrowPatch

    if isinstance(network, Run):
        edges = network.edge_table if edges is None else edges
        network = network.network
    rows = _drawn_edges(network, edges, threshold)
    shape = network.graph
    shape.add_edges_from((parent, child) for parent, child, p in rows if p >= 0.3)
    place = positions(shape)
    ax = axes_or_new(ax, (6.0, 4.2))
    x_unit = 1.0 + 0.07 * max(len(name) for name in place)
    place = {name: (x * x_unit, -y) for name, (x, y) in place.items()}
    labels = {
        name: ax.text(
            *xy,
            name,
            ha="center",
            va="center",
            fontsize=9,
            zorder=2,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "#0b4f79"},
        )
        for name, xy in place.items()
    }
    drawn = {(parent, child) for parent, child, _ in rows}
    kinds: dict[str, tuple[str, str]] = {}
    said = _effects(edges)
    for parent, child, probability in rows:
        known = parent in network.parents[child]
        kind = effect(network, child, parent) if known else said.get((parent, child), OUTSIDE)
        colour, style = EFFECT_STYLE[kind]
        kinds[kind] = colour, style
        end = f"{style},widthA=0,widthB=0.35" if style == "|-|" else style
        ax.add_patch(
            FancyArrowPatch(
                place[parent],
                place[child],
                patchA=labels[parent].get_bbox_patch(),
                patchB=labels[child].get_bbox_patch(),
                connectionstyle=f"arc3,rad={0.16 if (child, parent) in drawn else 0.03}",
                arrowstyle=end,
                mutation_scale=11,
                shrinkA=1,
                shrinkB=2,
                linewidth=0.6 + 2.4 * probability,
                linestyle="-" if known else (0, (3, 2)),
                color=colour,
                zorder=3,  # after the labels, whose boxes have no size until they are drawn
            )
        )
    xs, ys = zip(*place.values())
    ax.set(xlim=(min(xs) - 0.8, max(xs) + 0.8), ylim=(min(ys) - 0.5, max(ys) + 0.5))
    ax.axis("off")
    if legend and rows:
        _add_legend(ax, kinds, threshold if edges is not None else None)
    return ax


def _add_legend(ax: Axes, kinds: dict[str, tuple[str, str]], threshold: float | None) -> None:
    """Below the drawing: what ends and colours mean, and which edges are drawn."""
    from matplotlib.lines import Line2D

    handles = []
    for kind in (name for name in IN_LEGEND if name in kinds):
        colour, style = kinds[kind]
        handles.append(
            Line2D(
                [],
                [],
                color=colour,
                linestyle="--" if kind == OUTSIDE else "-",
                marker="|" if style == "|-|" else ">",
                markersize=8 if style == "|-|" else 5,
                markeredgewidth=2,
                label=IN_LEGEND[kind],
            )
        )
    title = None if threshold is None else f"probability ≥ {threshold:g}; width: probability"
    ax.legend(
        handles=handles,
        title=title,
        title_fontsize=8,
        fontsize=8,
        frameon=False,
        ncols=min(len(handles), 3),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
    )


def _effects(table: pd.DataFrame | None) -> dict[tuple[str, str], str]:
    """What a table of edges says of them, also of those outside the graph."""
    if table is None or "effect" not in table.columns:
        return {}
    rows = zip(table["parent"], table["child"], table["effect"])
    return {(str(p), str(c)): str(kind) for p, c, kind in rows if kind in EFFECT_STYLE}


def _drawn_edges(
    network: Network, table: pd.DataFrame | None, threshold: float
) -> list[tuple[str, str, float]]:
    if table is None:
        return [(p, child, 1.0) for child in network.nodes for p in network.parents[child]]
    require_columns(table, ("parent", "child", "probability"), "The table of edges")
    kept = table[table["probability"] >= threshold]
    rows = zip(kept["parent"], kept["child"], kept["probability"])
    return [(str(p), str(c), float(probability)) for p, c, probability in rows]
