"""The first minute: ``asterism demo`` with empty caches, beside another version of the code.

    python benchmarks/first_run.py -o out/ --before OTHER/src

Prints and writes processor and wall seconds of the first demo and of the second, which compiles
nothing. Both versions run in processes of their own, with caches of their own, one after the other.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Row, environment_of, option_parser, show_and_write

_HERE = Path(__file__).resolve().parents[1] / "src"


def demo(source: Path, cache: Path, output: Path) -> tuple[float, float]:
    """Processor and wall seconds of one demo, with all processes that it starts."""
    environment = {
        **environment_of(source),
        "NUMBA_CACHE_DIR": str(cache),
        "MPLBACKEND": "Agg",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "asterism", "demo", "-q", "-o", str(output)],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measure(before: Path | None = None) -> list[Row]:
    rows: list[Row] = []
    compiling: dict[str, float] = {}
    for name, source in (("before", before), ("now", _HERE)):
        if source is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache"
            first, first_wall = demo(source, cache, Path(folder) / "first")
            second, second_wall = demo(source, cache, Path(folder) / "second")
        compiling[name] = first - second
        rows += [
            (f"{name}: first demo, processor seconds", first, ""),
            (f"{name}: first demo, wall seconds", first_wall, "30 on two quiet cores"),
            (f"{name}: second demo, processor seconds", second, ""),
            (f"{name}: second demo, wall seconds", second_wall, ""),
            (f"{name}: compiling, processor seconds", compiling[name], ""),
        ]
    if before is not None:
        share = compiling["now"] / compiling["before"]
        rows.append(("compiling, now as a share of before", share, "at most 0.45"))
    return rows


if __name__ == "__main__":
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--before", type=Path, help="src folder of another version")
    options = parser.parse_args()
    show_and_write(measure(options.before), options.output / "first_run.csv")
