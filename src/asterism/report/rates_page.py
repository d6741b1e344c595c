"""The page of a fit of rates.

It shows state diagrams, hazard ratios, sojourn times, P(t) with a slider, observed against expected
prevalence, survival, misclassification, and the courses of single trajectories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from asterism.data.clock import per_unit
from asterism.report.page_data import course_part, json_number
from asterism.report.page_frame import number_text, rate_text, render_page, shared_context
from asterism.results.run import Run

#: configurations of the parents, per node, whose state diagrams are drawn
MOST_DIAGRAMS = 4


def render_rates(run: Run, title: str) -> str:
    """The page as text."""
    tables = run.tables
    states = {node: [str(s) for s in run.network.states[node]] for node in run.network.nodes}
    unit = str(run.run.get("time_unit") or "")
    confusion, others = _measured_how(tables, states)
    groups, diagrams = _rates(run, states)
    data = {
        **course_part(run, []),
        "diagrams": diagrams,
        "forest": _forest(tables.get("effects")),
        "prevalence": _prevalence(tables.get("prevalence"), states),
        "survival": _survival(tables.get("survival")),
        "probabilities": _probabilities(tables.get("transition_probabilities")),
    }
    return render_page(
        "rates.html.j2",
        ("graph.js", "expected.js", "courses.js", "fit.js", "fitted.js"),
        data,
        title=title,
        facts=_facts(run),
        groups=groups,
        effects=_records(tables.get("effects")),
        covariates=run.run.get("covariates") or [],
        differences=run.run.get("differences") or [],
        # nodes on whose rates each trajectory has a factor of its own
        factors=", ".join(dict.fromkeys(str(r["node"]) for r in _records(tables.get("frailty")))),
        sojourn=[r for r in _records(tables.get("sojourn_times")) if np.isfinite(r["mean"])],
        has_probabilities=data["probabilities"] is not None,
        has_prevalence=data["prevalence"] is not None,
        has_survival=data["survival"] is not None,
        confusion=confusion,
        misclassification=[*others, *_of_kind(tables, "outcome effect")],
        starts=_of_kind(tables, "start"),
        start_effects=_of_kind(tables, "start effect"),
        edge_ratios=_records(tables.get("edge_ratios")),
        unit=unit,
        in_unit=f" ({unit})" if unit else "",
        per=per_unit(unit),
        level=f"{float(run.run.get('level') or 0.95):.0%}",
        **shared_context(run, data),
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
        ("AIC given the first visit (msm)", "aic_given_first", ".2f"),
    ):
        if isinstance(record.get(key), int | float):
            value = record[key]
            facts.append((name, format(int(value) if form == ",d" else float(value), form)))
    if isinstance(record.get("log_evidence_given_first"), int | float):
        deviance = -2.0 * float(record["log_evidence_given_first"])
        facts.append(("−2 ln L given the first visit", f"{deviance:.3f}"))
    return facts


def _rates(
    run: Run, states: dict[str, list[str]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Tables of rates by node and configuration, and the state diagrams of the first of them."""
    rates = run.rates
    assert rates is not None
    groups: list[dict[str, Any]] = []
    diagrams: list[dict[str, Any]] = []
    for node in run.network.nodes:
        if run.network.rates[node] is None:
            continue
        mine = rates[rates["node"] == node].groupby("configuration", sort=False)
        for number, (configuration, table) in enumerate(mine):
            rows = _records(table)
            name = ", ".join(filter(None, (node, str(configuration))))
            drawn = number < MOST_DIAGRAMS
            groups.append({"name": name, "rows": rows, "diagram": len(diagrams) if drawn else None})
            if drawn:
                diagrams.append({"states": states[node], "rates": _arrows(rows, states[node])})
    return groups, diagrams


def _arrows(rows: list[dict[str, Any]], states: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "from": states.index(str(row["before"])),
            "to": states.index(str(row["after"])),
            "rate": json_number(row["rate"]),
            "text": rate_text(row),
            "title": f"{row['before']} to {row['after']}: {rate_text(row)} "
            f"({number_text(row['lower'])} to {number_text(row['upper'])})",
        }
        for row in rows
        if np.isfinite(row["rate"])
    ]


def _forest(effects: pd.DataFrame | None) -> list[dict[str, Any]] | None:
    """Hazard ratios and their intervals, with a name for each."""
    if effects is None or not len(effects):
        return None
    several = effects["node"].nunique() > 1
    rows = []
    for row in effects.to_dict("records"):
        listed = str(row["transitions"]).split(", ")
        # many transitions with one effect, as their number; the table lists them
        which = ", ".join(listed) if len(listed) <= 3 else f"{len(listed)} transitions"
        where = f"{row['node']} " if several else ""
        rows.append(
            {
                "name": f"{row['covariate']} on {where}{which}",
                "ratio": json_number(row["hazard_ratio"]),
                "low": json_number(row["hazard_ratio_lower"]),
                "high": json_number(row["hazard_ratio_upper"]),
            }
        )
    return rows


def _prevalence(table: pd.DataFrame | None, states: dict[str, list[str]]) -> dict[str, Any] | None:
    """Observed and expected shares, one list per state."""
    if table is None or len(states) != 1:
        return None
    names = next(iter(states.values()))
    own = [table[table["state"].astype(str) == name] for name in names]
    data: dict[str, Any] = {"states": names, "times": own[0]["time"].astype(float).tolist()}
    for column in ("observed", "expected", "n"):
        data[column] = [[json_number(float(v)) for v in rows[column]] for rows in own]
    return data


def _survival(table: pd.DataFrame | None) -> list[dict[str, Any]] | None:
    """One curve per state to start from, with its band and the empirical curve."""
    if table is None:
        return None
    curves = []
    for name, rows in table.groupby(table["from"].astype(str), sort=False):
        columns = [c for c in ("survival", "lower", "upper", "empirical") if c in rows]
        drawn = {c: [json_number(round(float(v), 5)) for v in rows[c]] for c in columns}
        followed = rows["at_risk"] if "at_risk" in rows else [0] * len(rows)
        curves.append(
            {
                "name": name,
                "times": rows["time"].astype(float).tolist(),
                "followed": [int(n) for n in followed],
                **drawn,
            }
        )
    return curves


def _probabilities(table: pd.DataFrame | None) -> dict[str, Any] | None:
    """P(t) with its intervals, [time][from][to]."""
    if table is None:
        return None
    labels = list(dict.fromkeys(table["from"].astype(str)))
    times = list(dict.fromkeys(table["time"].astype(float)))
    shape = (len(times), len(labels), len(labels))
    return {
        "labels": labels,
        "times": times,
        **{
            name: np.round(table[name].to_numpy(dtype=float).reshape(shape), 5).tolist()
            for name in ("probability", "lower", "upper")
        },
    }


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
