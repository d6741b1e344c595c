"""The page of a fit of rates: one HTML file that needs neither network nor server.

It shows a state diagram, hazard ratios, sojourn times, P(t) with a slider, observed against
expected prevalence, misclassification, and the courses of single trajectories. Python decides
what is shown; a small script only picks times and trajectories.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from asterism.data.clock import per_unit
from asterism.data.files import write_text
from asterism.report import rates_drawings as draw
from asterism.report.page_data import json_for_script
from asterism.results import courses
from asterism.results.run import Run

#: courses that the page holds
MOST_COURSES = 60


class Methods(NamedTuple):
    """What was done, as a paper says it."""

    text: str
    references: list[str]


def write_rates_page(run: Run, path: str | Path, methods: Methods) -> Path:
    """Write the page, atomically."""
    path = Path(path)
    named = run.run.get("title") or path.resolve().parent.name
    write_text(path, render_rates(run, f"{named} · rates", methods))
    return path


def render_rates(run: Run, title: str, methods: Methods) -> str:
    """The page as text."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters.update(number=draw.number, rate=draw.rate, share=draw.share)
    template = environment.from_string(_text("rates.html.j2"))
    tables = run.tables
    states = {node: [str(s) for s in run.network.states[node]] for node in run.network.nodes}
    unit = str(run.run.get("time_unit") or "")
    confusion, others = _measured_how(tables, states)
    return template.render(
        title=title,
        style=Markup(_text("rates.css")),
        script=Markup(_text("fitted_rates.js")),
        data=Markup(json_for_script(_script_data(run))),
        facts=_facts(run),
        converged=run.run.get("converged"),
        stop_reason=run.run.get("stop_reason") or "",
        nodes=[
            _node(run, node) for node in run.network.nodes if run.network.rates[node] is not None
        ],
        effects=_records(tables.get("effects")),
        forest=draw.hazard_ratios(tables["effects"]) if "effects" in tables else None,
        covariates=run.run.get("covariates") or [],
        sojourn=[r for r in _records(tables.get("sojourn_times")) if np.isfinite(r["mean"])],
        has_probabilities="transition_probabilities" in tables,
        prevalence=_prevalence(run, states),
        confusion=confusion,
        misclassification=others,
        starts=_of_kind(tables, "start"),
        has_courses=run.posterior is not None,
        decisions=run.run.get("decisions") or [],
        warnings=run.run.get("warnings") or [],
        notices=run.run.get("notices") or [],
        unit=unit,
        in_unit=f" ({unit})" if unit else "",
        per=per_unit(unit),
        methods=methods.text,
        references=methods.references,
        level=f"{float(run.run.get('level') or 0.95):.0%}",
    )


def _facts(run: Run) -> list[tuple[str, str]]:
    record = run.run
    facts = []
    for name, key, form in (
        ("trajectories", "n_trajectories", ",d"),
        ("measurements", "n_measurements", ",d"),
        ("parameters", "n_parameters", ",d"),
        ("ln likelihood", "log_evidence", ".2f"),
        ("AIC", "aic", ".2f"),
        ("BIC", "bic", ".2f"),
    ):
        if isinstance(record.get(key), int | float):
            value = record[key]
            facts.append((name, format(int(value) if form == ",d" else float(value), form)))
    if isinstance(record.get("log_evidence_given_first"), int | float):
        deviance = -2.0 * float(record["log_evidence_given_first"])
        facts.append(("−2 ln L given the first visit", f"{deviance:.3f}"))
    return facts


def _node(run: Run, node: str) -> dict[str, Any]:
    rates = run.rates
    assert rates is not None
    mine = rates[rates["node"] == node]
    groups = []
    for configuration, rows in mine.groupby("configuration", sort=False):
        groups.append(
            {
                "configuration": configuration,
                "drawing": draw.state_diagram(run.network.states[node], rows),
                "rows": _records(rows),
            }
        )
    return {"name": node, "groups": groups}


def _prevalence(run: Run, states: dict[str, list[str]]) -> dict[str, Any] | None:
    table = run.tables.get("prevalence")
    if table is None or len(states) != 1:
        return None
    names = next(iter(states.values()))
    legend = [(name, draw.colour(i)) for i, name in enumerate(names)]
    unit = str(run.run.get("time_unit") or "")
    return {"drawing": draw.prevalence_chart(table, names, unit), "legend": legend}


def _of_kind(tables: dict[str, pd.DataFrame], kind: str) -> list[dict[str, Any]]:
    table = tables.get("parameters")
    return [] if table is None else _records(table[table["kind"] == kind])


def _measured_how(
    tables: dict[str, pd.DataFrame], states: dict[str, list[str]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Confusion matrices by node, and all other parameters of emissions."""
    cells: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    others = []
    for row in _of_kind(tables, "emission"):
        node, _, rest = str(row["parameter"]).partition(": ")
        true, sign, reported = rest.partition(" reported as ")
        if sign:
            cells.setdefault(node, {})[true, reported] = row
        else:
            others.append(row)
    matrices = []
    for node, table in cells.items():
        order = states.get(node, [])
        columns = list(dict.fromkeys(r for _, r in table))
        columns.sort(key=lambda name: order.index(name) if name in order else len(order))
        trues = dict.fromkeys(true for true, _ in table)
        rows = [(true, [table.get((true, r)) for r in columns]) for true in trues]
        matrices.append({"node": node, "reported": columns, "rows": rows})
    return matrices, others


def _records(table: pd.DataFrame | None) -> list[dict[str, Any]]:
    if table is None:
        return []
    named = table.rename(columns={"from": "before", "to": "after"})
    records: list[Any] = named.to_dict("records")
    return records


def _script_data(run: Run) -> dict[str, Any]:
    """What the slider and the choice of a trajectory need."""
    data: dict[str, Any] = {"probabilities": None, "courses": None}
    data["unit"] = str(run.run.get("time_unit") or "")
    table = run.tables.get("transition_probabilities")
    if table is not None:
        labels = list(dict.fromkeys(table["from"].astype(str)))
        times = list(dict.fromkeys(table["time"].astype(float)))
        shape = (len(times), len(labels), len(labels))
        data["probabilities"] = {
            "labels": labels,
            "times": times,
            **{
                name: np.round(table[name].to_numpy(dtype=float).reshape(shape), 5).tolist()
                for name in ("probability", "lower", "upper")
            },
        }
    if run.posterior is not None:
        found = courses.from_dataset(run.posterior)
        names = [n for n in found.nodes if n in run.network.nodes]
        shown: list[dict[str, Any]] = []
        for d, label in enumerate(found.trajectories[:MOST_COURSES]):
            per_node = []
            for n, node in enumerate(names):
                times_, p = found.of(d, n, len(run.network.states[node]))
                per_node.append({"t": np.round(times_, 6).tolist(), "p": np.round(p, 4).tolist()})
            shown.append({"label": str(label), "nodes": per_node})
        data["courses"] = {
            "nodes": names,
            "states": [[str(s) for s in run.network.states[n]] for n in names],
            "trajectories": shown,
            "measured": _measured(run, [s["label"] for s in shown]),
        }
        data["colours"] = list(draw.STATE_COLOURS)
    return data


def _measured(run: Run, labels: list[str]) -> dict[str, list[list[Any]]]:
    """Per trajectory [node, time, value] of what was measured."""
    result: dict[str, list[list[Any]]] = {label: [] for label in labels}
    if run.observations is None:
        return result
    rows: Any = run.observations.itertuples(index=False)
    for row in rows:
        label = str(row.trajectory)
        if label in result and not (isinstance(row.value, float) and not np.isfinite(row.value)):
            result[label].append([str(row.node), float(row.time), _plain(row.value)])
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)


def _text(name: str) -> str:
    return (resources.files("asterism.report") / "templates" / name).read_text(encoding="utf-8")
