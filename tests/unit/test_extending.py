"""The recipes of CONTRIBUTING, tried out: emission, method, kind of node, search, file format."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism import errors
from asterism.commands.emissions import parse_emission
from asterism.commands.exits import Refused
from asterism.data.formats.registry import (
    FORMATS,
    Content,
    FileFormat,
    FormatEntry,
    table_of_formats,
)
from asterism.inference.methods import METHODS, Method
from asterism.learning.search.searches import SEARCHES, SearchFunction
from asterism.model.emission_kinds import EMISSION_KINDS
from asterism.model.emissions import emission_from_dict, emission_to_dict
from tests.command_line import invoke
from tests.paper_settings import paper_learner


@dataclass(frozen=True)
class Laplace(am.Emission):
    """Numbers with heavy tails around one mean per state."""

    means: tuple[float, ...] = (0.0, 1.0)
    width: float = 1.0

    @property
    def n_states(self) -> int:
        return len(self.means)

    def log_likelihood(self, values: Any, states: Any) -> Any:
        distance = np.abs(np.asarray(values, dtype=float)[:, None] - np.array(self.means))
        return -distance / self.width - np.log(2.0 * self.width)

    def sample(self, state_indices: Any, rng: np.random.Generator, states: Any) -> Any:
        return rng.laplace(np.array(self.means)[state_indices], self.width)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "laplace", "means": list(self.means), "width": self.width}

    @classmethod
    def from_dict(cls, fields: Any) -> Laplace:
        return cls(tuple(fields["means"]), fields["width"])


def chain() -> tuple[am.Network, am.Observations, Laplace]:
    network = am.glauber({"A": [], "B": ["A"]}, a=1.0, b=1.0)
    noise = Laplace((-1.0, 1.0), 0.2)
    paths = am.simulate(network, 4, duration=4.0, seed=1)
    return network, am.observe(paths, noise, n_observations=6, seed=2), noise


@pytest.mark.smoke
def test_an_emission_is_one_class_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    network, seen, noise = chain()
    exact = am.infer(network, seen, noise, method="exact")
    star = am.infer(network, seen, noise)
    assert np.isfinite(exact.log_evidence)
    assert abs(star.log_evidence - exact.log_evidence) < 1.0
    monkeypatch.setitem(EMISSION_KINDS, "laplace", (__name__, "Laplace"))
    assert emission_from_dict(emission_to_dict(noise)) == noise
    assert parse_emission("laplace:-1,1:0.2", 2) == noise
    with pytest.raises(Refused, match="does not suit laplace"):
        parse_emission("laplace:1,2:1:2", 2)


def test_an_emission_without_more_says_what_it_cannot_do() -> None:
    class Bare(am.Emission):
        """Nothing but a likelihood."""

        def log_likelihood(self, values: Any, states: Any) -> Any:
            return np.zeros((len(values), len(states)))

    with pytest.raises(errors.ModelError, match="Bare cannot be saved"):
        Bare().to_dict()
    with pytest.raises(errors.ModelError, match="Bare cannot be simulated"):
        Bare().sample(np.array([0]), np.random.default_rng(0), ["off", "on"])


def test_a_method_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    network, seen, noise = chain()
    module = types.ModuleType("method_of_ones_own")

    def solve(net: Any, evidence: Any, n_jobs: int = 1, patience: int = 0) -> Any:
        from asterism.exact.exact_posterior import solve as solve_exactly

        assert patience == 3
        return solve_exactly(net, evidence, n_jobs=n_jobs)

    module.solve = solve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = Method("own", "One's own.", module.__name__, uses=("n_jobs",), options=("patience",))
    monkeypatch.setitem(METHODS, "own", entry)
    found = am.infer(network, seen, noise, method="own", patience=3)
    exact = am.infer(network, seen, noise, method="exact")
    assert found.log_evidence == exact.log_evidence
    with pytest.raises(errors.AsterismError, match=r"valid are .*own"):
        am.infer(network, seen, noise, method="oown")
    with pytest.raises(errors.ModelError, match="'own' does not learn rates; valid are auto, star"):
        am.ParameterLearner(network.graph, noise, method="own").fit(seen)


def test_a_search_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seen, noise = chain()
    from asterism.learning.search import exhaustive

    called: list[object] = []

    def search(task: Any, begin: Any = None) -> Any:
        called.append(task)
        return exhaustive.search_exhaustively(task, begin)

    module = types.ModuleType("search_of_ones_own")
    module.search = search  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = SearchFunction(module.__name__, "search", screens=False)
    monkeypatch.setitem(SEARCHES, "own", entry)
    learner = paper_learner(noise, max_parents=1, search="own").fit(seen)
    assert len(called) == 1
    assert learner.converged_


@dataclass(frozen=True)
class Switch(am.Emission):
    """A kind of node that a module of its own learns."""

    graph_learner = "kind_of_ones_own"


def test_a_kind_of_node_is_an_emission_and_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seen, noise = chain()
    from asterism.learning.search import task

    called: list[object] = []

    def learn_from_observations(settings: Any, observations: Any, progress: Any) -> Any:
        called.append(settings.emission)
        settings = replace(settings, emission=noise, method="star")
        return task.learn_from_observations(settings, observations, progress)

    module = types.ModuleType("kind_of_ones_own")
    module.learn_from_observations = learn_from_observations  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    learner = paper_learner(Switch(), max_parents=1).fit(seen)
    assert called == [Switch()]
    assert len(learner.edges_) == 2
    # one node of this kind is enough
    paper_learner({"A": Switch(), "B": noise}, max_parents=1).fit(seen)
    assert len(called) == 2


class ArrowFile(FileFormat):
    """One line "parent -> child" per edge."""

    def read(self, path: Path, settings: Any) -> Content:
        lines = [line.split(" -> ") for line in path.read_text().splitlines()]
        return Content(edges=[(parent, child) for parent, child in lines])

    def write(self, content: Content, path: Path) -> None:
        _, edges = content.require("graph", "arrows")
        path.write_text("".join(f"{parent} -> {child}\n" for parent, child in edges))


def test_a_file_format_is_one_class_and_one_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entry = FormatEntry(__name__, "ArrowFile", (".arrows",), ("graph",))
    monkeypatch.setitem(FORMATS, "arrows", entry)
    (tmp_path / "e.csv").write_text("parent,child\nA,B\nB,C\n")
    # by its ending, then by its name
    assert invoke("convert", tmp_path / "e.csv", tmp_path / "e.arrows").exit_code == 0
    assert (tmp_path / "e.arrows").read_text() == "A -> B\nB -> C\n"
    back = invoke("convert", tmp_path / "e.arrows", tmp_path / "again.csv", "--from", "arrows")
    assert back.exit_code == 0, back.stderr
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "e.csv").read_text()
    # and messages and tables know it
    assert "| `arrows` | graph | .arrows |" in table_of_formats()
    unknown = invoke("convert", tmp_path / "e.csv", tmp_path / "x.csv", "--to", "arows")
    assert unknown.exit_code == 2
    assert "'arrows'" in unknown.stderr
    (tmp_path / "paths.csv").write_text("time,node,state\n0,A,on\n1,A,off\n")
    nothing = invoke("convert", tmp_path / "paths.csv", tmp_path / "p.arrows")
    assert nothing.exit_code == 3
    assert "There is no graph to write as arrows" in nothing.stderr


def test_the_docs_list_the_formats_of_the_registry() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs" / "reference" / "formats.md"
    assert table_of_formats() in docs.read_text(encoding="utf-8")
    listed = invoke("convert", "--help")
    assert f"Formats: {', '.join(FORMATS)}." in " ".join(listed.stdout.split())
