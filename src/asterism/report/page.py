"""The pages: one HTML file each, which needs neither network nor server.

Here is the page of a network; ``rates_page.py`` has that of a fit, ``compare_page.py`` that of a
comparison, and ``page_frame.py`` what all share.
"""

from __future__ import annotations

import math
from pathlib import Path

from asterism.data.files import write_text
from asterism.report.page_data import page_data, ranking_rows
from asterism.report.page_frame import render_page, shared_context
from asterism.report.rates_page import render_rates
from asterism.results.ranking import ranked, support
from asterism.results.run import Run
from asterism.results.summary import sentences

#: scripts of the page of a network, in the order in which they build on each other
SCRIPTS = (
    *("graph.js", "network.js", "edge_table.js", "heatmap.js", "charts.js", "expected.js"),
    *("courses.js", "fit.js", "rates.js", "panels.js"),
)

#: a drawing of more nodes takes the whole width of the page
LARGE_DRAWING = 40


def write_report(
    run: Run, path: str | Path, *, threshold: float = 0.5, node: str | None = None
) -> Path:
    """Write the page of a run, atomically; see :func:`render`."""
    path = Path(path)
    named = run.run.get("title") or path.resolve().parent.name
    if run.is_fit:
        text = render_rates(run, f"{named} · rates")
    else:
        text = render(run, f"{named} · Asterism report", threshold=threshold, node=node)
    write_text(path, text)
    return path


def render(
    run: Run,
    title: str = "Asterism report",
    *,
    threshold: float = 0.5,
    node: str | None = None,
) -> str:
    """The page as text: ``threshold`` is where its slider starts, ``node`` what it shows first.

    Where no edge reaches one half, the slider starts at the tenth edge instead of there.
    """
    shown = threshold
    top = ranked(run.edge_table)["probability"].tolist() if run.learned else []
    if top and top[0] < threshold == 0.5:
        shown = math.floor(100.0 * top[-1]) / 100.0
    data = page_data(run, shown, node)
    lead, rest = sentences(run)[:2], sentences(run)[2:]
    supported = support(run.edge_table) if run.learned else ""
    return render_page(
        "report.html.j2",
        SCRIPTS,
        data,
        title=title,
        lead=lead,
        support=supported,
        chance=(run.run.get("null") or {}).get("sentence", ""),
        caution=[text for text in rest if text != supported],
        ranking=ranking_rows(data["edges"], run.network.nodes) if run.learned else [],
        facts=_facts(run),
        learned=run.learned,
        threshold=shown,
        graph_threshold=threshold,
        has_edges=any(run.network.parents.values()),
        has_effects=any("effect" in edge for edge in data["edges"]),
        prior=data["heatmap"]["prior"],
        large=len(data["layout"]) > LARGE_DRAWING,
        has_history=data["history"] is not None,
        traces=bool(data["chains"]),
        levels=bool(data["levels"]),
        continuous=bool(run.network.drifts),
        truth=data["truth"],
        **shared_context(run, data),
    )


def _facts(run: Run) -> list[tuple[str, str]]:
    facts = [("nodes", f"{len(run.network.nodes):,}")]
    if len(run.network.nodes) > 1:
        reached = "edges above the threshold" if run.learned else "edges"
        facts.append((reached, f"{sum(map(len, run.network.parents.values())):,}"))
    return [*facts, *((name, f"{n:,}") for name, n in run.sizes.items())]
