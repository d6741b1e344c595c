"""Draws the three walks of docs/map.md: which files a call visits, folder by folder.

Run it from the root of the repository: ``python examples/make_walk_images.py``. It traces the calls
with the compiler off and writes docs/images/walk-*.svg.
"""

from __future__ import annotations

import os

os.environ["NUMBA_DISABLE_JIT"] = "1"

import contextlib
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

import asterism as am

HOME = Path(am.__file__).parent
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
#: from the user down to the arithmetic, as in pyproject.toml
LAYERS = [
    *(".", "commands", "report", "learning", "learning/search", "learning/em", "results"),
    *("inference", "exact", "sampling", "engine", "engine/rules", "clusters", "star"),
    *("timeline", "model", "data"),
    *("data/formats", "numerics"),
]


def visited(call: Callable[[], Any]) -> list[str]:
    """Files of the package in the order of their first visit."""
    files: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(HOME)):
            short = Path(name).relative_to(HOME).as_posix()
            if short not in files:
                files.append(short)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


def draw(files: list[str], title: str, path: Path) -> None:
    """One row per folder; numbers give the order of the first visit."""
    rows: dict[str, list[str]] = {}
    for number, name in enumerate(files, start=1):
        file = Path(name)
        label = f"{number} {file.name.removesuffix('.py')}"
        rows.setdefault(file.parent.as_posix(), []).append(label)
    folders = sorted(rows, key=lambda f: LAYERS.index(f) if f in LAYERS else len(LAYERS))
    lines = [(folder, rows[folder][i : i + 5]) for folder in folders
             for i in range(0, len(rows[folder]), 5)]  # fmt: skip
    figure, axes = plt.subplots(figsize=(9, 0.34 * len(lines) + 0.7))
    last = ""
    for y, (folder, names) in enumerate(lines):
        if folder != last:
            shown = "cli" if folder == "." else folder + "/"
            axes.text(0, -y, shown, fontsize=9, weight="bold", va="center")
            last = folder
        for x, name in enumerate(names):
            box = {"boxstyle": "round,pad=0.25", "facecolor": "#eef3fa", "edgecolor": "#9fb6d6"}
            axes.text(1.5 + 1.55 * x, -y, name, fontsize=8, va="center", bbox=box)
    axes.set_xlim(0, 9.2)
    axes.set_ylim(-len(lines), 0.8)
    axes.set_title(f"{title}: {len(files)} files", loc="left", fontsize=11)
    axes.axis("off")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Trace the three calls, each once before so that imports do not count."""
    warnings.filterwarnings("ignore")
    network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=1.0, b=1.0)
    noise = am.Gaussian((-1, 1), 0.4)
    paths = am.simulate(network, 3, duration=3.0, seed=1)
    seen = am.observe(paths, noise, n_observations=4, seed=2)
    folder = Path(tempfile.mkdtemp())
    seen.to_frame().to_csv(folder / "t.csv", index=False)

    def infer() -> None:
        am.infer(network, seen, noise, method="clusters")

    def fit() -> None:
        am.StructureLearner(noise, max_parents=1, method="star", search="screened", n_jobs=1).fit(
            seen
        )

    def learn() -> None:
        from asterism.cli import main as command

        run = str(folder / f"RUN{len(list(folder.iterdir()))}")
        sys.argv = ["asterism", "learn", str(folder / "t.csv"), "-o", run, "--quiet"]
        sys.argv += ["--max-parents", "1", "--method", "star", "--emission", "gaussian:-1,1:0.4"]
        with contextlib.suppress(SystemExit):
            command()

    plt.rcParams.update({"svg.hashsalt": "asterism", "svg.fonttype": "none"})
    for call, name, title in (
        (infer, "infer", 'am.infer(network, data, emission, method="clusters")'),
        (fit, "fit", "am.StructureLearner(emission).fit(data)"),
        (learn, "learn", "asterism learn DATA.csv -o RUN"),
    ):
        call()
        draw(visited(call), title, IMAGES / f"walk-{name}.svg")


if __name__ == "__main__":
    main()
