"""Figures for papers, on matplotlib Axes: given or made, and returned.

Colours are those of Okabe and Ito, told apart by colour-blind readers; what a colour says is also
said by a shape. Nothing here changes matplotlib's global settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.data.clock import time_label
from asterism.data.files import write_atomically
from asterism.errors import DataError, quoted
from asterism.report.figure_style import BLUE, ORANGE, PALETTE, axes_or_new, tidy
from asterism.report.fit_figures import forest, prevalence, sojourn, survival, transitions
from asterism.report.network_figure import EFFECT_STYLE, OUTSIDE, graph
from asterism.report.page_data import BAND, common_prior
from asterism.results import courses as course_data
from asterism.results.courses import levels, measurements
from asterism.results.edge_sets import edge_list, square
from asterism.results.metrics import edge_scores, pr_curve, roc_curve
from asterism.results.ranking import TOP, expected_true, ranked
from asterism.results.run import Run

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

__all__ = [
    "edges",
    "forest",
    "graph",
    "posterior",
    "prevalence",
    "ranking",
    "roc",
    "save_figures",
    "sojourn",
    "survival",
    "transitions",
]


def posterior(
    run: Run | xarray.Dataset | xarray.DataArray,
    node: str,
    trajectory: Any = None,
    *,
    states: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The course of one node in one trajectory (by default the first).

    From a :class:`Run` with measured numbers: the expected measurement with its 90 % band, and
    the measurements. Else the probability of each state, with measured states as ticks. Of a
    continuous node, from the ``marginals`` of ``am.infer``: its mean with a 90 % band.
    """
    data: Any = run.posterior if isinstance(run, Run) else run
    if data is None:
        raise DataError("This run holds no posterior to draw.")
    if "quantity" in getattr(data, "dims", ()):
        return _draw_moving(data, node, trajectory, ax)
    found = course_data.from_dataset(data)
    if node not in found.nodes:
        raise DataError(f"The posterior has no node {node!r}; it has {', '.join(found.nodes)}.")
    number = _trajectory_number(found.trajectories, trajectory)
    label = found.trajectories[number]
    column = found.nodes.index(node)
    ax = axes_or_new(ax, (6.0, 2.8))
    ax.set_xlabel(time_label(run.run.get("time_unit") if isinstance(run, Run) else None))
    ax.set_title(f"trajectory {label}", loc="left", fontsize=10, pad=14)
    if not isinstance(run, Run):
        block = found.probabilities[number][:, column]
        n_states = int(np.isfinite(block).any(axis=0).sum())
        names = tuple(range(n_states)) if states is None else tuple(states)
        return _draw_states(ax, *found.of(number, column, n_states), names, node)
    names = run.network.states[node] if states is None else tuple(states)
    seen = measurements(run.observations, run.network, found.trajectories)
    times, block = found.of(number, column, len(names))
    own = seen.of(label, node)
    level = levels(seen, found, node, len(names))
    if level is None:
        _draw_states(ax, times, block, names, node)
        for s in np.unique(own.values.astype(int)):
            when = own.times[own.values == s]
            colour = PALETTE[s % len(PALETTE)]
            ax.vlines(when, 1.01, 1.08, color=colour, linewidth=2, clip_on=False)
        return ax
    mean = block @ level.mean
    low, high = (level.quantile(block, 0.5 + side * BAND / 2) for side in (-1, 1))
    ax.fill_between(times, low, high, color=BLUE, alpha=0.16, linewidth=0, label="90 % band")
    ax.plot(times, mean, color=BLUE, linewidth=1.8, label="expected")
    ax.plot(own.times, own.values, "o", color="black", markerfacecolor="none", label="measured")
    ax.set(ylabel=node)
    tidy(ax)
    _legend_above(ax, 3)
    return ax


def edges(probabilities: pd.DataFrame | Run, *, ax: Axes | None = None) -> Axes:
    """Heat map of edge probabilities; rows are parents, columns are children.

    A line on the scale marks the prior probability, where a run knows one for all edges.
    """
    from matplotlib import colormaps

    prior = common_prior(probabilities) if isinstance(probabilities, Run) else None
    table = probabilities.edge_probabilities if isinstance(probabilities, Run) else probabilities
    if {"parent", "child", "probability"} <= set(table.columns):
        table = square(table, sorted({*table["parent"], *table["child"]}))
    values = table.to_numpy(dtype=np.float64, na_value=np.nan).copy()
    own = [[parent == child for child in table.columns] for parent in table.index]
    values[np.array(own, dtype=bool)] = np.nan
    ax = axes_or_new(ax, (4.6, 4.0))
    shades = colormaps["Blues"].with_extremes(bad="#e3e7ec")
    image = ax.imshow(np.ma.masked_invalid(values), cmap=shades, vmin=0.0, vmax=1.0)
    size = 8 if len(table) <= 30 else 5
    ax.set_xticks(range(table.shape[1]), [str(c) for c in table.columns], fontsize=size)
    ax.tick_params(axis="x", rotation=45)
    for text in ax.get_xticklabels():
        text.set(ha="right", rotation_mode="anchor")
    ax.set_yticks(range(table.shape[0]), [str(r) for r in table.index], fontsize=size)
    ax.set(xlabel="child", ylabel="parent")
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04, ticks=[0.0, 0.5, 1.0])
    bar.set_label("probability")
    bar.outline.set_visible(False)
    if prior is not None:
        bar.ax.axhline(prior, color=ORANGE, linewidth=2, gid="prior")
        bar.ax.text(-0.3, prior, "prior", ha="right", va="center", fontsize=7, color=ORANGE)
    return ax


def ranking(learner: Any, n: int = TOP, *, labels: bool = True, ax: Axes | None = None) -> Axes:
    """The most probable edges of a fitted learner, a run or a table of edges, surest on top.

    A bar is a probability, a grey mark the prior one. Colour and sign say what the parent does;
    ``labels`` adds the fold change or shift with its interval. The title gives the number of these
    edges that are expected to be true.
    """
    table = getattr(learner, "edge_table", getattr(learner, "edges_", learner))
    if not isinstance(table, pd.DataFrame) or "probability" not in table.columns:
        raise DataError("A ranking needs a fitted learner, a run, or its table of edges.")
    top = ranked(table.sort_values("probability", ascending=False, kind="stable"), n)
    if not len(top):
        raise DataError("There is no edge with a probability to rank.")
    ax = axes_or_new(ax, (6.0, 0.9 + 0.32 * len(top)))
    effects = top["effect"] if "effect" in top.columns else pd.Series([""] * len(top))
    colours = [EFFECT_STYLE[kind if kind in EFFECT_STYLE else OUTSIDE][0] for kind in effects]
    place = np.arange(len(top))
    chance = top["probability"].to_numpy(dtype=np.float64)
    ax.barh(place, chance, color=colours, height=0.62, alpha=0.85)
    if "prior" in top.columns:
        prior = top["prior"].to_numpy(dtype=np.float64)
        style: dict[str, Any] = {"color": "#4d4d4d", "linewidth": 1.6, "label": "prior"}
        ax.vlines(prior, place - 0.4, place + 0.4, gid="prior", **style)
        ax.legend(frameon=False, fontsize=8, loc="lower right")
    names = [f"{p} → {c}" for p, c in zip(top["parent"], top["child"])]
    ax.set_yticks(place, names, fontsize=9)
    for i, row in enumerate(top.to_dict("records") if labels else []):
        ax.text(chance[i] + 0.012, i, _in_short(row), va="center", fontsize=8)
    ax.invert_yaxis()
    ax.set(xlim=(0.0, 1.0), xlabel="probability")
    about = f"about {expected_true(top):.1f} of these {len(top)} are true"
    ax.set_title(about if len(top) > 1 else "", loc="left", fontsize=10)
    tidy(ax)
    return ax


_SIGNS = {"raises": "↑", "lowers": "↓", "mixed": "↕", "none": "="}


def _in_short(row: dict[Any, Any]) -> str:
    """The sign of an edge and how strong it is, such as "↑ ×3.1 (1.2 to 8)"."""
    text = _SIGNS.get(str(row.get("effect") or ""), "")
    for name, sign in (("fold_change", "×"), ("shift", "")):
        value, low, high = (row.get(f"{name}{end}") for end in ("", "_lower", "_upper"))
        if isinstance(value, float) and np.isfinite(value):
            text += f" {sign}{value:.2g}"
            if isinstance(low, float) and isinstance(high, float) and np.isfinite(high - low):
                text += f" ({low:.2g} to {high:.2g})"
    return text


def roc(
    edge_probabilities: pd.DataFrame | Run,
    truth: Any = None,
    *,
    kind: str = "roc",
    nodes: Sequence[str] | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """ROC curve, or with ``kind="pr"`` precision against recall. Call again to add a curve."""
    if kind not in ("roc", "pr"):
        raise DataError(f"kind is {kind!r}; it may be 'roc' or 'pr'.")
    if isinstance(edge_probabilities, Run):
        truth = edge_probabilities.truth if truth is None else truth
        nodes = edge_probabilities.network.nodes
        edge_probabilities = edge_probabilities.edge_table
    if truth is None:
        raise DataError("A ROC curve needs the true edges; give truth=.")
    fresh = ax is None
    ax = axes_or_new(ax, (3.6, 3.4))
    scores = edge_scores(edge_probabilities, truth, nodes=nodes)
    colour = PALETTE[sum(line.get_gid() == "curve" for line in ax.lines) % len(PALETTE)]
    style: dict[str, Any] = {"color": colour, "linewidth": 1.8, "gid": "curve"}
    if kind == "roc":
        table = roc_curve(edge_probabilities, truth, nodes=nodes)
        name = f"{label or 'AUROC'} {scores['auroc']:.2f}"
        ax.plot(table["false_positive_rate"], table["true_positive_rate"], label=name, **style)
        ax.set(xlabel="false positive rate", ylabel="true positive rate")
        baseline = [0.0, 1.0]
    else:
        table = pr_curve(edge_probabilities, truth, nodes=nodes)
        name = f"{label or 'AUPR'} {scores['aupr']:.2f}"
        ax.step(table["recall"], table["precision"], where="pre", label=name, **style)
        ax.set(xlabel="recall", ylabel="precision")
        baseline = [_share_of_true_pairs(truth, edge_probabilities, nodes)] * 2
    if fresh:
        grey: dict[str, Any] = {"color": "#8a94a0", "linewidth": 1, "linestyle": "--"}
        ax.plot([0, 1], baseline, label="guessing", gid="baseline", **grey)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    tidy(ax)
    ax.legend(frameon=False, fontsize=8, loc="lower right" if kind == "roc" else "lower left")
    return ax


def save_figures(
    run: Run,
    folder: str | Path,
    formats: Iterable[str] = ("png", "svg", "pdf"),
    *,
    threshold: float = 0.5,
    nodes: Sequence[str] = (),
) -> list[Path]:
    """Write every figure the run has data for; returns the files.

    The network shows edges from ``threshold`` on; ``nodes`` are those whose courses are drawn, by
    default the child of the surest edge.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder = Path(folder)
    formats = tuple(formats)
    known = FigureCanvasAgg(Figure()).get_supported_filetypes()
    wrong = [name for name in formats if name not in known]
    if wrong:
        raise DataError(
            f"Figures cannot be saved as {', '.join(wrong)}; use {', '.join(sorted(known))}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    made = {"network": graph(run, threshold=threshold)}
    if run.learned and len(ranked(run.edge_table)):
        made["ranking"] = ranking(run)
    if run.learned and len(run.network.nodes) <= 200:
        made["edges"] = edges(run)
    if run.scores() is not None and run.learned:
        made["roc"], made["precision_recall"] = roc(run), roc(run, kind="pr")
    if run.posterior is not None:
        for node in nodes:
            name = re.sub(r"[^\w.-]+", "_", node) or "_"  # without what file systems refuse
            made[f"course_{name}"] = posterior(run, node)
        if not nodes:
            made["course"] = posterior(run, _interesting_node(run))
    written = []
    for name, ax in made.items():
        for suffix in formats:
            path = folder / f"{name}.{suffix}"
            write_atomically(path, partial(_save, ax.figure, suffix))
            written.append(path)
    return written


def _save(figure: Any, suffix: str, path: Path) -> None:
    figure.savefig(path, format=suffix, dpi=300, bbox_inches="tight")


# ---- parts ----------------------------------------------------------------------------------


def _trajectory_number(labels: Iterable[Any], trajectory: Any) -> int:
    if trajectory is None:
        return 0
    texts = [str(label) for label in labels]
    if str(trajectory) not in texts:
        raise DataError(f"The posterior has no trajectory {trajectory!r}; it has {quoted(texts)}.")
    return texts.index(str(trajectory))


def _draw_states(ax: Axes, times: Any, block: Any, names: Sequence[Any], node: str) -> Axes:
    shades = [PALETTE[s % len(PALETTE)] for s in range(len(names))]
    ax.stackplot(times, block.T, colors=shades, alpha=0.35, labels=[str(n) for n in names])
    ax.set(ylim=(0, 1), ylabel=f"P(state of {node})")
    if len(times):
        ax.set_xlim(times[0], times[-1])
    tidy(ax)
    _legend_above(ax, len(names))
    return ax


def _draw_moving(marginals: xarray.DataArray, node: str, trajectory: Any, ax: Axes | None) -> Axes:
    from scipy.special import ndtri

    names = marginals["node"].values.tolist()
    if node not in names:
        raise DataError(
            f"The posterior has no continuous node {node!r}; it has {', '.join(names)}."
        )
    labels = marginals["trajectory"].values
    number = _trajectory_number(labels, trajectory)
    own = marginals.isel(trajectory=number).sel(node=node)
    mean, times = own.sel(quantity="mean").values, own["time"].values
    half = float(ndtri(0.5 + BAND / 2)) * own.sel(quantity="sd").values
    ax = axes_or_new(ax, (6.0, 2.8))
    ax.set_title(f"trajectory {labels[number]}", loc="left", fontsize=10, pad=14)
    ax.fill_between(times, mean - half, mean + half, color=BLUE, alpha=0.16, label="90 % band")
    ax.plot(times, mean, color=BLUE, linewidth=1.8, label="expected")
    ax.set(xlabel=time_label(None), ylabel=node)
    tidy(ax)
    _legend_above(ax, 2)
    return ax


def _legend_above(ax: Axes, n_columns: int) -> None:
    ax.legend(
        frameon=False,
        fontsize=8,
        ncols=n_columns,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.1),
        borderaxespad=0.0,
    )


def _share_of_true_pairs(truth: Any, table: pd.DataFrame, nodes: Sequence[str] | None) -> float:
    """The precision of guessing: how many of all ordered pairs are true edges."""
    names = set(nodes) if nodes is not None else {*table["parent"], *table["child"]}
    return len(set(edge_list(truth))) / max(len(names) * (len(names) - 1), 1)


def _interesting_node(run: Run) -> str:
    """The child of the surest edge in the graph, as on the report page."""
    inside = run.edge_table[run.edge_table["in_graph"]]
    return str(inside["child"].iloc[0]) if len(inside) else run.network.nodes[0]
