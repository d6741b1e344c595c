"""The runs of the app: one folder each, with the table, what was chosen, and the results.

Every step is a command of asterism in a process of its own (``check``, ``learn``, ``compare``), so
that the app knows nothing that the command line does not know. ``learn`` is told that a program
reads along (``commands/console.py``): it prints its stages and the ranking so far as JSON, and ends
with the best so far as soon as a line, or the end of the app, reaches its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asterism.data.files import write_text
from asterism.errors import AsterismError

#: bytes of a table, and runs in the folder: far more than a page can show
LARGEST_TABLE = 200 * 2**20
MOST_RUNS = 500
#: endings of files that are read as tables
ENDINGS = (".csv", ".tsv", ".txt", ".xlsx", ".csv.gz", ".tsv.gz")
#: seconds that a run has to write its results when the app ends
PATIENCE = 60.0
#: lines of a run that are kept to be shown
MOST_LINES = 200

#: what can be chosen on the page: the flags of ``check`` and ``learn``, and those of ``learn`` only
READING = (
    *("kind", "time", "trajectory", "nodes", "top", "sheet", "states", "comma", "missing"),
    *("labels", "sort", "emission", "exogenous"),
)
LEARNING = ("method", "minutes", "max-parents", "seed")


class Refusal(AsterismError):
    """What cannot be done, in one sentence, with the status of the answer."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class Run:
    """One table and what became of it; ``state`` is new, running, finished, stopped or failed."""

    folder: Path
    title: str
    table: str
    created: float
    state: str = "new"
    message: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    stage: dict[str, Any] = field(default_factory=dict)
    ranking: list[Any] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    process: asyncio.subprocess.Process | None = None
    n_stops: int = 0

    @property
    def name(self) -> str:
        """That of its folder, which is also its address."""
        return self.folder.name

    @property
    def results(self) -> Path:
        """The results folder of ``learn``."""
        return self.folder / "results"

    @property
    def has_results(self) -> bool:
        """Whether there is a page to open."""
        return (self.results / "report.html").is_file()

    def as_json(self) -> dict[str, Any]:
        """What the page shows."""
        kept = ("title", "created", "state", "message", "settings", "stage", "ranking", "lines")
        shown = {key: getattr(self, key) for key in kept}
        return {"name": self.name, "has_results": self.has_results, **shown}

    def save(self) -> None:
        """Remember it for the next start; a full disk is said, and ends nothing."""
        kept = ("title", "table", "created", "state", "message", "settings", "ranking")
        try:
            write_text(
                self.folder / "app.json", json.dumps({key: getattr(self, key) for key in kept})
            )
        except OSError as error:
            self.lines.append(f"The list of runs could not be written: {error.strerror}.")


class Runs:
    """All runs of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        for path in sorted(self.folder.glob("*/app.json")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                run = Run(path.parent, **json.loads(path.read_text(encoding="utf-8")))
                if run.state == "running":  # the app was killed meanwhile
                    run.state = "stopped" if run.has_results else "failed"
                    run.message = "The app ended while this ran."
                self._runs[run.name] = run

    def __iter__(self) -> Any:
        return iter(sorted(self._runs.values(), key=lambda run: run.created))

    def get(self, name: str) -> Run:
        """The run of this name."""
        if name not in self._runs:
            raise Refusal("There is no run of this name.", 404)
        return self._runs[name]

    def new(self, filename: str) -> Run:
        """A folder for a table; its name keeps only letters, digits and - of the file's."""
        base = Path(filename.replace("\\", "/")).name
        ending = next((e for e in sorted(ENDINGS, key=len)[::-1] if base.lower().endswith(e)), None)
        if ending is None:
            raise Refusal(f"A table is a file that ends in {', '.join(ENDINGS)}.", 415)
        if len(self._runs) >= MOST_RUNS:
            raise Refusal(f"There are {MOST_RUNS} runs already: move some out of {self.folder}.")
        title = base[: -len(ending)][:60] or "table"
        stem = re.sub(r"[^A-Za-z0-9]+", "-", title).strip("-") or "table"
        number = 1
        while True:
            folder = self.folder / f"{stem}-{number}"
            try:
                folder.mkdir()
                break
            except FileExistsError:
                number += 1
            except OSError as error:
                raise Refusal(f"{self.folder} cannot be written: {error.strerror}.", 507) from None
        return Run(
            folder, title if number == 1 else f"{title} ({number})", f"table{ending}", time.time()
        )

    def add(self, run: Run) -> None:
        """Its table has arrived."""
        run.save()
        self._runs[run.name] = run

    # ---- commands -----------------------------------------------------------------------------

    async def check(self, run: Run, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The table as it is understood with these settings; problems are part of the answer."""
        flags = flags_of(settings, READING)
        table = run.folder / run.table
        code, out, err = await _call("check", str(table), "--json", *flags)
        with contextlib.suppress(ValueError):
            found: dict[str, Any] = json.loads(out)
            return found
        return {"ok": False, "error": _error_in(err, code)}

    async def start(self, run: Run, settings: Mapping[str, Any]) -> Run:
        """Learn from the table; a run that has results stays, and another one begins."""
        busy = [other.title for other in self if other.state == "running"]
        if busy:
            raise Refusal(f"{busy[0]!r} is still running: wait for it, or stop it first.", 409)
        flags = flags_of(settings, (*READING, *LEARNING))
        if run.has_results:
            old, run = run, self.new(f"{run.title}{Path(run.table).suffixes[0]}")
            run.table = old.table
            try:
                shutil.copy2(old.folder / old.table, run.folder / run.table)
            except OSError as error:
                shutil.rmtree(run.folder, ignore_errors=True)
                raise Refusal(f"The table could not be copied: {error.strerror}.", 507) from None
            self.add(run)
        # what an interrupted run has scored is used again, if it asks for the same
        same = run.settings == dict(settings) and (run.results / "journal.sqlite").exists()
        run.settings, run.state, run.message = dict(settings), "running", ""
        run.lines, run.ranking, run.n_stops = [], [], 0
        run.stage = {"stage": "Starting", "done": 0, "total": 0}
        run.save()
        run.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "asterism", "learn", str(run.folder / run.table)),
            *("-o", str(run.results), f"--title={run.title}", "--resume" if same else "--force"),
            *flags,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "ASTERISM_WATCHED": "1", "MPLBACKEND": "Agg"},
            start_new_session=True,  # Ctrl-C is for the app, which then asks for the best so far
            limit=2**20,
        )
        task = asyncio.create_task(self._follow(run, run.process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    async def _follow(self, run: Run, process: asyncio.subprocess.Process) -> None:
        """Read what a run says until it ends."""
        assert process.stderr is not None
        async for raw in process.stderr:
            line = raw.decode("utf-8", "replace").rstrip()
            try:
                told = json.loads(line) if line.startswith("{") else {}
            except ValueError:
                told = {}
            if "ranking" in told:
                run.ranking = told["ranking"]
            elif "stage" in told:
                run.stage = told
            elif line:
                run.lines = [*run.lines, line][-MOST_LINES:]
        code = await process.wait()
        run.process, run.stage = None, {}
        if code in (0, 4, 130) and (run.results / "run.json").exists():
            run.state = "stopped" if run.n_stops else "finished"
            if code == 4 and not run.n_stops:
                run.message = "The search did not settle: the page says what that means."
            elif run.n_stops:
                run.message = "Stopped: the best so far is kept."
        elif run.n_stops:
            run.state = "stopped"
            run.message = "Stopped before there was a result; what was computed is used next time."
        else:
            run.state, run.message = "failed", _error_in("\n".join(run.lines), code)
        run.save()

    def stop(self, run: Run) -> None:
        """Ask for the best so far; asked again, do not wait for it."""
        if run.process is None:
            return
        run.n_stops += 1
        with contextlib.suppress(ProcessLookupError, OSError):
            if run.n_stops == 1 and run.process.stdin is not None:
                run.process.stdin.close()
            else:
                run.process.send_signal(signal.SIGINT if run.n_stops == 2 else signal.SIGTERM)

    async def compare(self, first: Run, second: Run) -> str:
        """The name of the page that compares two runs."""
        for run in (first, second):
            if not run.has_results:
                raise Refusal(f"{run.title!r} has no results to compare.")
        name = f"{first.name}--{second.name}"
        code, _, err = await _call(
            *("compare", str(first.results), str(second.results), "--force"),
            *("-o", str(self.folder / ".compared" / name), f"--names={first.name},{second.name}"),
        )
        if code:
            raise Refusal(_error_in(err, code))
        return name

    async def close(self) -> None:
        """Let what runs write the best so far."""
        for run in self:
            self.stop(run)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PATIENCE)


def flags_of(settings: Mapping[str, Any], known: tuple[str, ...]) -> list[str]:
    """Settings of the page as flags; none of them can be taken for another flag."""
    flags = []
    for name, value in settings.items():
        if name not in (*READING, *LEARNING):
            raise Refusal(f"There is no setting {name!r}.")
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str | int | float) for one in values):
            raise Refusal(f"The setting {name!r} must be text or a number.")
        if name in known and values and values != [""]:
            flags.append("--sort" if name == "sort" else f"--{name}={','.join(map(str, values))}")
    return flags


async def _call(*arguments: str) -> tuple[int, str, str]:
    """A short command; its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "asterism", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _error_in(text: str, code: int) -> str:
    """The sentence with which a command ended."""
    found = [line for line in text.splitlines() if line.startswith("Error: ")]
    return found[-1].removeprefix("Error: ") if found else f"The command ended with code {code}."
