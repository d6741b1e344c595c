"""Every speed benchmark at a reduced size, beside what was recorded last: a loss of speed shows.

    python benchmarks/all.py            compare with docs/results/recorded.csv
    python benchmarks/all.py --record   and make today's figures the recorded ones

Ratios can be compared between machines, seconds only on the same one: a figure counts as lost only
if it is a ratio and has grown by more than a quarter. The exit code is 1 then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import first_run
import inference
import page_size
import pandas as pd
import scaling
import screening
import search
import states
from common import Row, option_parser, write_table

_SLACK = 1.25


def _scaling() -> list[Row]:
    """Two sizes of a genome-like tree: how seconds and memory grow per node."""
    small, large = (scaling.one_size(n, 20, 0.2, 1) for n in (100, 400))
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


def _pages() -> list[Row]:
    """Sizes of pages, which depend on no machine."""
    table = page_size.measure(None)
    return [
        (f"page of {name}, ratio of megabytes to the limit", size / limit, "at most 1")
        for name, size, limit in zip(table["page"], table["megabytes"], table["limit"])
        if limit > 0
    ]


def _inference() -> list[Row]:
    """One thread only: two of them need a quiet machine."""
    return inference.one_thread(repeats=8)


def _first_run() -> list[Row]:
    """Compiling for the first demo beside running it: the share of both that is compiling."""
    return [row for row in first_run.measure() if "processor" in row[0]]


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "states": lambda: states.measure(repeats=8),
    "search": lambda: search.measure(sizes=(6,), repeats=1, patients=200),
    "scaling": _scaling,
    "screening": lambda: screening.share_of_peak(400),
    "inference": _inference,
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


def main() -> int:
    parser = option_parser(__doc__, "docs/results")
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    parser.add_argument("--record", action="store_true", help="keep today's figures")
    options = parser.parse_args()
    path = options.output / "recorded.csv"
    recorded = pd.read_csv(path) if path.exists() else None
    rows = [(kind, row) for kind in options.only for row in BENCHMARKS[kind]()]
    table = compared(rows, recorded)
    print(table.to_string(index=False, float_format=lambda v: f"{v:.4g}"))
    if options.record:
        kept = table[["benchmark", "measured", "value", "wanted"]]
        if recorded is not None:
            others = recorded[~recorded["benchmark"].isin(options.only)]
            kept = pd.concat([others, kept])
        write_table(kept, path, digits=4)
    return int(bool(table["lost"].any()))


if __name__ == "__main__":
    sys.exit(main())
