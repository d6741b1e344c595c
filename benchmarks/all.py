"""Every speed benchmark at a reduced size, beside what was recorded last: a loss of speed shows.

    python benchmarks/all.py            compare with benchmarks/results/recorded.csv
    python benchmarks/all.py --record   and make today's figures the recorded ones
    python benchmarks/all.py --only states pages

Ratios can be compared between machines, seconds only on the same one: a figure counts as lost only
if it is a ratio and has grown by more than a quarter. The exit code is 1 then. Every benchmark runs
in a process of its own, so that none disturbs another's memory or caches, and is recorded as soon
as it is done.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from common import Row, best_of, option_parser, told_by, write_table

_SLACK = 1.25


def _part(name: str) -> Any:
    """The module of a benchmark, loaded in the process that needs it."""
    return importlib.import_module(name)


def _states() -> list[Row]:
    rows: list[Row] = _part("states").measure(repeats=8)
    return rows + _part("states").clusters(repeats=2)


def _search() -> list[Row]:
    rows: list[Row] = _part("search").measure(sizes=(6,), repeats=1, patients=1000)
    return rows


def _single_nodes() -> list[Row]:
    rows: list[Row] = _part("single_nodes").measure()
    return rows


def _scaling() -> list[Row]:
    """Two sizes of a genome-like tree: how seconds and memory grow per node."""
    small, large = (_part("scaling").one_size(n, 20, 0.2, 1) for n in (100, 400))
    return [
        ("400 nodes, k = 1, seconds", large["seconds"], ""),
        ("400 nodes, k = 1, peak memory, GB", large["peak_memory_gb"], ""),
        (
            "400 nodes, k = 1, ratio of seconds per node to those of 100",
            large["seconds_per_node"] / small["seconds_per_node"],
            "",
        ),
        ("400 nodes, k = 1, share of parents right", large["parents_right"], ""),
    ]


def _screening() -> list[Row]:
    """A ratio that may only grow: plain products beside screening."""
    rows: list[Row] = _part("screening").share_of_peak(400)
    return [*rows, ("ratio of plain products to screening", 1.0 / rows[-1][1], "")]


def _pages() -> list[Row]:
    """Sizes of pages, which depend on no machine."""
    table = _part("page_size").measure(None)
    return [
        (f"page of {name}, ratio of megabytes to the limit", size / limit, "at most 1")
        for name, size, limit in zip(table["page"], table["megabytes"], table["limit"])
        if limit > 0
    ]


def _inference() -> list[Row]:
    """One thread only: two of them need a quiet machine."""
    rows: list[Row] = _part("inference").one_thread(repeats=8)
    return rows


def _clusters() -> list[Row]:
    """What a sweep of clusters costs beside one of the star."""
    row = _part("clusters").cost([100], [2])[0]
    return [
        ("clusters, 100 nodes, ns per node, step and sweep", row[f"{_NS}_clusters"], ""),
        ("clusters, 100 nodes, ratio to the star", row["ratio"], "at most 10"),
    ]


_NS = "ns_per_node_step_sweep"


def _simulation() -> list[Row]:
    small, large = (_part("simulation").nanoseconds_per_jump(n) for n in (10, 1000))
    return [
        ("simulation, 10 nodes, ns per jump", small, ""),
        (
            "simulation, ratio of a jump among 1,000 nodes to one among 10",
            large / small,
            "at most 2",
        ),
    ]


def _sampling() -> list[Row]:
    speed = _part("sampling_speed")
    one = 1e9 * speed.time_of_exponential()
    event = speed.nanoseconds_per_event(*speed.started(14, 10, 13))
    return [
        ("sampling, ns per event", event, ""),
        ("sampling, ratio of an event to an exponential", event / one, ""),
    ]


def _complete_paths() -> list[Row]:
    """The score of every family of whole paths beside the same by numpy."""
    import asterism as am

    complete = _part("complete_data")
    _, paths = complete.data(seed=0)
    learner = am.StructureLearner(max_parents=complete.MAX_PARENTS, n_jobs=1, method="star")
    prior = learner.fit(paths).prior_
    slow = best_of(lambda: complete.numpy_scores(paths, prior.shape, prior.rate_value), 1)
    ours = best_of(lambda: learner.fit(paths), 5)
    return [("complete paths, ratio of seconds to those of numpy", ours / slow, "")]


def _first_run() -> list[Row]:
    """Compiling for the first demo beside running it."""
    return [row for row in _part("first_run").measure() if "processor" in row[0]]


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "states": _states,
    "search": _search,
    "single_nodes": _single_nodes,
    "scaling": _scaling,
    "screening": _screening,
    "inference": _inference,
    "clusters": _clusters,
    "simulation": _simulation,
    "sampling": _sampling,
    "complete_paths": _complete_paths,
    "pages": _pages,
    "first_run": _first_run,
}


def is_ratio(name: str) -> bool:
    return "times two" in name or "ratio" in name


def compared(rows: list[tuple[str, Row]], recorded: pd.DataFrame | None) -> pd.DataFrame:
    """Today's figures with the recorded ones, and which are lost."""
    table = pd.DataFrame(
        [
            {"benchmark": kind, "measured": name, "value": value, "wanted": wanted}
            for kind, (name, value, wanted) in rows
        ]
    )
    old = {} if recorded is None else dict(zip(recorded["measured"], recorded["value"]))
    table["recorded"] = [old.get(name, float("nan")) for name in table["measured"]]
    table["change"] = table["value"] / table["recorded"]
    ratio = table["measured"].map(is_ratio)
    table["lost"] = ratio & (table["change"] > _SLACK)
    return table


def keep(rows: list[tuple[str, Row]], recorded: pd.DataFrame | None, path: Path) -> pd.DataFrame:
    """Write these figures over those recorded of the same benchmarks; the others stay."""
    names = ["benchmark", "measured", "value", "wanted"]
    fresh = pd.DataFrame([(kind, *row) for kind, row in rows], columns=names)
    if recorded is not None:
        fresh = pd.concat([recorded[~recorded["benchmark"].isin(fresh["benchmark"])], fresh])
    place = {name: i for i, name in enumerate(BENCHMARKS)}
    order = fresh["benchmark"].map(lambda name: place.get(name, len(place)))
    return write_table(fresh.iloc[order.argsort(kind="stable")], path, digits=4)


def main() -> int:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    parser.add_argument("--record", action="store_true", help="keep today's figures")
    parser.add_argument("--tell", choices=list(BENCHMARKS), help="one benchmark, as JSON")
    options = parser.parse_args()
    if options.tell:
        print(json.dumps(BENCHMARKS[options.tell]()))
        return 0
    path = options.output / "recorded.csv"
    recorded = pd.read_csv(path) if path.exists() else None
    source = Path(__file__).resolve().parents[1] / "src"
    rows: list[tuple[str, Row]] = []
    for kind in options.only:
        own = [(kind, tuple(row)) for row in told_by(__file__, source, "--tell", kind)]
        rows += own
        shown = compared(own, recorded)
        print(shown.to_string(index=False, float_format=lambda v: f"{v:.4g}"), flush=True)
        if options.record:
            keep(rows, recorded, path)
    lost = compared(rows, recorded)
    lost = lost[lost["lost"]]
    for row in lost.itertuples():
        print(f"lost: {row.measured}: {row.value:.4g}, was {row.recorded:.4g}")
    return int(not lost.empty)


if __name__ == "__main__":
    sys.exit(main())
