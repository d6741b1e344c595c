"""Small files that people write by hand, mangled at random: never an error of the program.

Priors of edges, interventions, settings, truths, graphs, networks and the files that ``convert``
reads. A command either takes the file or refuses it in a sentence that names it.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.errors import AsterismError, DataError
from tests.command_line import invoke
from tests.faults import harness

ENOUGH = "Enough was read."
CELLS = [
    "", " ", "nan", "inf", "-inf", "-1", "1e308", "1e-320", "1" * 400, "=1+1", "'", '"', "a;b",
    "\0", "é", "\ud7ff", "0x10", "1_000", "1,5", "[", "]", "{", "}", "[[", "null", "true", "A",
    "2.0000000001", "x" * 5000,
]  # fmt: skip


def mangled(text: str, rng: random.Random) -> bytes:
    """One to three changes that a slip of the hand, a bad export or an attacker would make."""
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(9)
        lines = text.split("\n")
        row = rng.randrange(len(lines))
        at = rng.randrange(len(text) + 1)
        if kind == 0:
            del lines[row]
            text = "\n".join(lines)
        elif kind == 1:
            lines.insert(row, rng.choice(lines))
            text = "\n".join(lines)
        elif kind == 2:  # a cell, or a word of JSON
            parts = lines[row].split(",")
            parts[rng.randrange(len(parts))] = rng.choice(CELLS)
            lines[row] = ",".join(parts)
            text = "\n".join(lines)
        elif kind == 3:
            text = text[:at]
        elif kind == 4:
            text = text[:at] + rng.choice(CELLS) + text[at:]
        elif kind == 5:
            text = text.replace(",", rng.choice([";", "\t", ",,", " "]))
        elif kind == 6:
            text = text[:at] + text[at + rng.randint(1, 12) :]
        elif kind == 7:
            words = sorted({w for w in text.replace(",", " ").split() if w})
            if words:
                text = text.replace(rng.choice(words), rng.choice(CELLS))
        else:
            text = text.upper() if rng.random() < 0.5 else text[::-1]
    content = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        content = rng.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"PK\x03\x04"]) + content
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mangled")
    network = am.glauber("chain:3")
    network.save(folder / "network.json")
    paths = am.simulate(network, 2, duration=3.0, seed=0)
    am.observe(paths, am.Gaussian((-1, 1), 0.5), n_observations=4, seed=1).to_csv(
        folder / "data.csv"
    )
    paths.save(folder / "paths.csv")
    made = invoke("convert", folder / "paths.csv", folder / "pyagrum.csv", "--to", "pyagrum")
    assert made.exit_code == 0, made.output
    flags = ("--to", "pyctbn", "--network", folder / "network.json")
    made = invoke("convert", folder / "paths.csv", folder / "pyctbn.json", *flags)
    assert made.exit_code == 0, made.output
    made = invoke("convert", folder / "network.json", folder / "graph.graphml")
    assert made.exit_code == 0, made.output
    return folder


def node(k: int) -> str:
    return am.glauber("chain:3").nodes[k]


STAR = ("--method", "star")
LEARN = ("learn", "data.csv", "-o", "RUN", "--emission", "gaussian:-1,1:0.5", *STAR)
A, B, C = (node(k) for k in range(3))
#: what is mangled: the file, its content (None: one of the folder), the command
FILES: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "priors of edges": (
        "prior.csv", f"parent,child,probability\n{A},{B},0.9\n{B},{C},0.2\n",
        (*LEARN, "--edge-prior", "prior.csv"),
    ),
    "interventions": (
        "held.csv",
        f"trajectory,node,start,end,state\n0,{A},0.0,1.0,1\n1,{B},1.0,2.0,-1\n",
        (*LEARN, "--interventions", "held.csv"),
    ),
    "true edges": (
        "truth.csv", f"parent,child\n{A},{B}\n{B},{C}\n", (*LEARN, "--truth", "truth.csv"),
    ),
    "settings": (
        "asterism.toml",
        'max_parents = 1\nsearch = "exhaustive"\nemission = ["gaussian:-1,1:0.5"]\nseed = 3\n',
        ("learn", "data.csv", "-o", "RUN", "--config", "asterism.toml", *STAR),
    ),
    "edges of a graph": (
        "edges.csv", f"parent,child\n{A},{B}\n{B},{C}\n",
        ("fit", "data.csv", "-o", "RUN", "--emission", "gaussian:-1,1:0.5", "--edges", "edges.csv"),
    ),
    "a network": (
        "network.json", None,
        ("infer", "data.csv", "-o", "RUN", "--emission", "gaussian:-1,1:0.5", "--network",
         "network.json"),
    ),
    "a network to convert": (
        "network.json", None, ("convert", "network.json", "x.graphml", "--force"),
    ),
    "paths to convert": ("paths.csv", None, ("convert", "paths.csv", "x.json", "--to", "pyctbn",
                                             "--force", "--network", "net.json")),
    "paths of pyAgrum": ("pyagrum.csv", None, ("convert", "pyagrum.csv", "x.csv", "--from",
                                               "pyagrum", "--force")),
    "paths of PyCTBN": ("pyctbn.json", None, ("convert", "pyctbn.json", "x.csv", "--force")),
    "a graph in XML": ("graph.graphml", None, ("convert", "graph.graphml", "x.csv", "--force")),
}  # fmt: skip


def stop(*_: Any, **__: Any) -> Any:
    raise DataError(ENOUGH)


@pytest.fixture
def copied(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files in a working directory of their own; commands stop where they have been read."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "net.json").write_bytes((folder / "network.json").read_bytes())
    monkeypatch.chdir(tmp_path)
    # what follows the reading is tested elsewhere
    monkeypatch.setattr(am.StructureLearner, "fit", stop)
    monkeypatch.setattr(am.ParameterLearner, "fit", stop)
    monkeypatch.setattr("asterism.inference.posterior.quiet_infer", stop)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "n_files", [4, pytest.param(30 if harness.REDUCED else 300, marks=pytest.mark.slow)]
)
def test_mangled_files_are_taken_or_refused(name: str, n_files: int, copied: Path) -> None:
    file, text, command = FILES[name]
    right = text if text is not None else (copied / file).read_text()
    rng = random.Random(name)
    for k in range(n_files):
        Path(file).write_bytes(mangled(right, rng))
        done = invoke(*command)
        where = (name, k, done.output, Path(file).read_bytes()[:500])
        assert done.exit_code in (0, 2, 3, 4), where
        assert "error of asterism itself" not in done.stderr, where
        assert "Traceback" not in done.output, where
        taken = done.exit_code in (0, 4) or ENOUGH in done.stderr
        if not taken:
            assert done.stderr.strip(), where
            assert len(done.stderr) < 4000, where
        harness.count(f"mangled: {name}", "taken" if taken else "refused")


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("value", ['["gaussian:-1,1:0.5"]', "[]", "{ a = 1 }"])
def test_a_setting_that_takes_one_value_gets_a_list(value: str) -> None:
    Path("asterism.toml").write_text(f"null = {value}\n")
    done = invoke("learn", "data.csv", "-o", "RUN", "--config", "asterism.toml")
    assert done.exit_code == 2
    assert "'asterism.toml' sets null to" in done.stderr


@pytest.mark.usefixtures("copied")
def test_the_files_are_taken_as_they_are() -> None:
    """Otherwise every mangled one is refused for another reason."""
    for file, text, command in FILES.values():
        if text is not None:
            Path(file).write_text(text)
        done = invoke(*command)
        assert done.exit_code == 0 or ENOUGH in done.stderr, (command, done.output)


def test_json_by_hand_is_mangled_inside_too(tmp_path: Path) -> None:
    """Values swapped between places: right types, wrong sense."""
    right = am.glauber("chain:3").to_dict()
    rng = random.Random(0)
    n_refused = 0
    for _ in range(300):
        content = json.loads(json.dumps(right))
        spots: list[tuple[Any, Any]] = []

        def walk(value: Any, spots: list[tuple[Any, Any]] = spots) -> None:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, inner in items:
                spots.append((value, key))
                if isinstance(inner, (dict, list)):
                    walk(inner)

        walk(content)
        (one, a), (other, b) = rng.sample(spots, 2)
        one[a], other[b] = json.loads(json.dumps([other[b], one[a]]))
        try:
            found = am.Network.from_dict(content)
        except AsterismError:
            n_refused += 1
            harness.count("networks with values swapped", "refused")
        else:
            assert all(np.isfinite(found.rates[n]).all() for n in found.nodes)
            harness.count("networks with values swapped", "read")
    assert n_refused > 250
