"""Do 95 % intervals of rates, hazard ratios and misreports hold the truth 95 times in 100?

Simulated panels fitted exactly (tests/reference/simulated_panels.py). Writes interval_coverage.csv:
python benchmarks/interval_coverage.py --panels 200 --patients 200, which takes some minutes;
--rows keeps every interval, so that it can be stopped and goes on.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import product
from pathlib import Path

import pandas as pd
from common import option_parser, timed, write_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.simulated_panels import coverage, intervals


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--panels", type=int, default=200, help="number of panels (200)")
    parser.add_argument("--patients", type=int, default=200, help="patients per panel (200)")
    parser.add_argument("--rows", type=Path, help="keep every interval here, and go on from there")
    parser.add_argument("--visits", default="half-yearly,yearly", help="designs (both)")
    options = parser.parse_args()
    parts: list[pd.DataFrame] = []
    if options.rows and options.rows.exists():
        parts.append(pd.read_csv(options.rows, keep_default_na=False))
    known = set(zip(parts[0]["visits"], parts[0]["panel"])) if parts else set()
    for visits, seed in product(options.visits.split(","), range(options.panels)):
        if (visits, seed) in known:
            continue
        found, seconds = timed(partial(intervals, seed, options.patients, visits))
        parts.append(found.assign(visits=visits))
        print(f"{visits} {seed}: {found['covered'].mean():.2f}, {seconds:.1f} s", flush=True)
        if options.rows:
            pd.concat(parts).to_csv(options.rows, index=False)
    rows = pd.concat(parts, ignore_index=True)
    tables = [coverage(part).assign(visits=name) for name, part in rows.groupby("visits")]
    table = pd.concat(tables, ignore_index=True).assign(patients=options.patients)
    print(table.to_string())
    write_table(table, options.output / "interval_coverage.csv", digits=4)


if __name__ == "__main__":
    main()
