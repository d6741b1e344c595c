"""What one command leaves for the next: warnings, emissions, and the same verdict on a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asterism.commands.emissions import as_flag, parse_emission
from asterism.model.emissions import Categorical, Gaussian, Poisson
from tests.command_line import invoke


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and what was learned from it."""
    folder = tmp_path_factory.mktemp("run")
    simulated = invoke(
        *("simulate", "--glauber", "tree:3", "-o", folder / "data.csv", "--trajectories", 3)
    )
    assert simulated.exit_code == 0, simulated.output
    learned = invoke("learn", folder / "data.csv", "-o", folder / "RUN", "--max-parents", 2)
    assert learned.exit_code in (0, 4), learned.output
    return folder


def test_warnings_about_the_data_stay_with_the_results(run: Path) -> None:
    warnings = json.loads((run / "RUN" / "run.json").read_text())["warnings"]
    assert any("too few measurements" in line for line in warnings)
    page = (run / "RUN" / "report.html").read_text(encoding="utf-8")
    assert '<p class="warning">' in page
    assert "too few measurements" in page


def test_infer_reads_measurements_as_learn_did(run: Path) -> None:
    network = run / "RUN" / "network.json"
    flags = json.loads((run / "RUN" / "run.json").read_text())["emission_flags"]
    assert set(flags) == {"0", "1", "2"}
    same = invoke("infer", run / "data.csv", "--network", network, "-o", run / "SAME")
    assert same.exit_code == 0, same.output
    assert "As learned with the network (--emission), gaussian:" in same.stderr
    used = json.loads((run / "SAME" / "run.json").read_text())["emission"]
    assert used == {node: repr(parse_emission(flag, 2)) for node, flag in flags.items()}
    other = invoke(
        *("infer", run / "data.csv", "--network", network, "-o", run / "OTHER"),
        *("--emission", "gaussian:-1,1:0.3"),
    )
    assert other.exit_code == 0, other.output
    assert "As asked, gaussian:-1,1:0.3" in other.stderr


def test_a_network_without_a_run_beside_it_is_as_before(run: Path, tmp_path: Path) -> None:
    alone = tmp_path / "network.json"
    alone.write_bytes((run / "RUN" / "network.json").read_bytes())
    for content in (None, "{not json", "[1, 2]", '{"emission_flags": [1]}', '{"a": 1}'):
        if content is not None:
            (tmp_path / "run.json").write_text(content)
        result = invoke(
            *("infer", run / "data.csv", "--network", alone, "-o", tmp_path / "RUN", "--force")
        )
        assert result.exit_code == 0, result.output
        assert "As learned" not in result.stderr


def test_flags_give_the_emission_back() -> None:
    for emission in (Gaussian((-1.5, 2.0), 0.25), Gaussian((0.0, 1.0), (0.5, 0.125))):
        assert parse_emission(str(as_flag(emission)), 2) == emission
    assert parse_emission(str(as_flag(Poisson((1.0, 7.5)))), 2) == Poisson((1.0, 7.5))
    assert as_flag(Gaussian(learn=True)) is None
    assert as_flag(Categorical([[0.9, 0.1], [0.1, 0.9]])) is None


@pytest.mark.parametrize(
    "rows", ["0,1,2", "0,,\n1,,\n2,,"], ids=["a single row", "nothing measured"]
)
def test_check_says_what_learn_would(rows: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"time,a,b\n{rows}\n")
    checked = invoke("check", path)
    learned = invoke("learn", path, "-o", tmp_path / "RUN")
    assert checked.exit_code == learned.exit_code == 3
    nothing = "No column of the table holds anything to learn from."
    assert nothing in checked.stdout
    assert nothing in learned.stderr
    assert json.loads(invoke("check", path, "--json").stdout)["ok"] is False
