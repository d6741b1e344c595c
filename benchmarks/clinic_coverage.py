"""Do 95 % intervals of effects on outcomes, of rates that change, and of frailty hold the truth?

Simulated panels fitted exactly (tests/reference/simulated_panels.py, frailty.py). Writes
clinic_coverage.csv: python benchmarks/clinic_coverage.py -o benchmarks/results (some minutes).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from common import option_parser, write_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.frailty import spread_intervals
from tests.reference.simulated_panels import changing_intervals, coverage, outcome_intervals


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--panels", type=int, default=200, help="number of panels (200)")
    parser.add_argument("--patients", type=int, default=100, help="patients per panel (100)")
    parser.add_argument("--frailty", type=int, default=50, help="panels with frailty (50)")
    options = parser.parse_args()
    tables = []
    for name, made, n_panels in (
        ("outcome", outcome_intervals, options.panels),
        ("changing", changing_intervals, options.panels),
        ("frailty", spread_intervals, options.frailty),
    ):
        rows = pd.concat([made(seed, options.patients) for seed in range(n_panels)])
        tables.append(coverage(rows).assign(model=name))
        print(tables[-1].to_string(), flush=True)
    table = pd.concat(tables, ignore_index=True).assign(patients=options.patients)
    write_table(table, options.output / "clinic_coverage.csv", digits=4)


if __name__ == "__main__":
    main()
