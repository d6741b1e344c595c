"""The report page: one HTML file that needs neither network nor server.

The template, style and scripts lie in ``templates/``; numbers come from :mod:`page_data`. Python
decides what is shown and JavaScript only draws it.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from asterism.report.page_data import page_data
from asterism.results.files import write_text
from asterism.results.run import Run
from asterism.results.summary import sentences, settings_rows

#: scripts that draw the first screen, and those that wait for the plotting library
FIRST_SCRIPTS = ("shared.js", "network.js", "edge_table.js", "start.js")
CHART_SCRIPTS = ("charts.js", "courses.js", "rates.js", "start_charts.js")

#: a drawing of more nodes takes the whole width of the page
LARGE_DRAWING = 40


def write_report(run: Run, path: str | Path) -> Path:
    """Write the page, atomically."""
    path = Path(path)
    write_text(path, render(run, title=_title(run, path)))
    return path


def render(run: Run, title: str = "Asterism report") -> str:
    """The page as text."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    data = page_data(run)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_text("report.html.j2"))
    return template.render(
        title=title,
        style=Markup(_text("report.css")),
        data=Markup(json_for_script(data)),
        first_script=Markup("\n".join(_text(name) for name in FIRST_SCRIPTS)),
        plotly=Markup(get_plotlyjs()),
        chart_script=Markup("\n".join(_text(name) for name in CHART_SCRIPTS)),
        sentences=sentences(run),
        facts=_facts(run),
        converged=run.run.get("converged"),
        stop_reason=run.run.get("stop_reason"),
        settings=settings_rows(run),
        decisions=run.run.get("decisions") or [],
        warnings=run.run.get("warnings") or [],
        learned=run.learned,
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
