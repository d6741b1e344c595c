"""The report page: one HTML file that needs neither network nor server.

The template, style and scripts lie in ``templates/``; numbers come from :mod:`page_data`. Python
decides what is shown and JavaScript only draws it.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from asterism.data.files import write_text
from asterism.report.methods_text import methods_paragraph, references
from asterism.report.page_courses import fit_sentence
from asterism.report.page_data import page_data
from asterism.results.run import Run
from asterism.results.summary import sentences, settings_rows

#: in the order in which they build on each other
SCRIPTS = (
    *("shared.js", "svg.js", "network.js", "edge_table.js", "heatmap.js", "charts.js"),
    *("expected.js", "courses.js", "fit.js", "rates.js", "start.js"),
)

#: a drawing of more nodes takes the whole width of the page
LARGE_DRAWING = 40


def write_report(
    run: Run, path: str | Path, *, threshold: float = 0.5, node: str | None = None
) -> Path:
    """Write the page, atomically; see :func:`render`."""
    path = Path(path)
    if run.is_fit:
        from asterism.report.rates_page import write_rates_page

        return write_rates_page(run, path)
    write_text(path, render(run, _title(run, path), threshold=threshold, node=node))
    return path


def render(
    run: Run,
    title: str = "Asterism report",
    *,
    threshold: float = 0.5,
    node: str | None = None,
) -> str:
    """The page as text: ``threshold`` is where its slider starts, ``node`` what it shows first."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    data = page_data(run, threshold, node)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_text("report.html.j2"))
    return template.render(
        title=title,
        style=Markup(_text("report.css")),
        data=Markup(json_for_script(data)),
        script=Markup("\n".join(_text(name) for name in SCRIPTS)),
        sentences=sentences(run),
        facts=_facts(run),
        converged=run.run.get("converged"),
        stop_reason=run.run.get("stop_reason"),
        settings=settings_rows(run),
        decisions=run.run.get("decisions") or [],
        warnings=run.run.get("warnings") or [],
        learned=run.learned,
        threshold=threshold,
        several=len(run.network.nodes) > 1,
        methods=methods_paragraph(run),
        references=references(run),
        prior=data["heatmap"]["prior"],
        fit=fit_sentence(data["fit"]),
        large=len(data["layout"]) > LARGE_DRAWING,
        has_courses=data["courses"] is not None,
        has_history=data["history"] is not None,
        truth=data["truth"],
        notices=[*run.run.get("notices", []), *data["notices"]],
    )


def json_for_script(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever the nodes are called."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _facts(run: Run) -> list[tuple[str, str]]:
    facts = [("nodes", f"{len(run.network.nodes):,}")]
    if len(run.network.nodes) > 1:
        facts.append(("edges", f"{sum(map(len, run.network.parents.values())):,}"))
    if run.observations is not None:
        facts.append(("trajectories", f"{run.observations['trajectory'].nunique():,}"))
        facts.append(("measurements", f"{len(run.observations):,}"))
    return facts


def _title(run: Run, path: Path) -> str:
    named = run.run.get("title") or path.resolve().parent.name
    return f"{named} · Asterism report"


def _text(name: str) -> str:
    return (resources.files("asterism.report") / "templates" / name).read_text(encoding="utf-8")
