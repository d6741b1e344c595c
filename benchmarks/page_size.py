"""How large report pages are, and how long they take to write; writes page_size.csv.

python benchmarks/page_size.py                 made-up networks
python benchmarks/page_size.py --run RUN       and of a run, such as that of asterism demo
python benchmarks/page_size.py --genome        and of a made-up network of 20,000 nodes
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from common import option_parser, write_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.example_runs import example_run, genome_run, large_run

from asterism.report.page import write_report
from asterism.results.folder import load
from asterism.results.run import Run

#: what a page may weigh, in bytes
LIMITS = {"8 nodes": 1_500_000, "demo": 1_500_000, "500 nodes": 4_000_000}


def runs(folder: Path | None, genome: bool) -> Iterator[tuple[str, Run]]:
    """Names and runs, the smallest first."""
    yield "8 nodes", example_run()
    yield "100 nodes", large_run(100)
    yield "500 nodes", large_run(500)
    if folder is not None:
        yield "demo", load(folder)
    if genome:
        yield "20,000 nodes", genome_run(20_000)


def measure(folder: Path | None, genome: bool = False) -> pd.DataFrame:
    """One row per page."""
    rows = []
    with TemporaryDirectory() as place:
        for name, run in runs(folder, genome):
            begin = time.process_time()
            page = write_report(run, Path(place) / "report.html")
            seconds = time.process_time() - begin
            size = page.stat().st_size
            rows.append((name, round(size / 1e6, 3), LIMITS.get(name, 0) / 1e6, round(seconds, 2)))
    return pd.DataFrame(rows, columns=["page", "megabytes", "limit", "processor_seconds"])


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--run", type=Path, help="a results folder")
    parser.add_argument("--genome", action="store_true", help="20,000 nodes as well")
    options = parser.parse_args()
    table = measure(options.run, options.genome)
    print(table.to_string(index=False))
    write_table(table, options.output / "page_size.csv")


if __name__ == "__main__":
    main()
