"""What one command leaves for the next: warnings, emissions, and the same verdict on a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import asterism as am
from asterism.commands.emissions import as_flag, parse_emission
from asterism.model.emissions import Categorical, Gaussian, Poisson, emission_from_dict
from tests.command_line import invoke


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and what was learned from it."""
    folder = tmp_path_factory.mktemp("run")
    simulated = invoke(
        *("simulate", "--glauber", "tree:3", "-o", folder / "data.csv", "--trajectories", 3)
    )
    assert simulated.exit_code == 0, simulated.output
    learned = invoke(
        *("learn", folder / "data.csv", "-o", folder / "RUN", "--max-parents", 2),
        *("--method", "star"),
    )
    assert learned.exit_code in (0, 4), learned.output
    return folder


def test_warnings_about_the_data_stay_with_the_results(run: Path) -> None:
    warnings = json.loads((run / "RUN" / "run.json").read_text())["warnings"]
    assert any("few measurements" in line for line in warnings)
    page = (run / "RUN" / "report.html").read_text(encoding="utf-8")
    assert '<p class="warning">' in page
    assert "few measurements" in page


@pytest.mark.smoke
def test_infer_reads_measurements_as_learn_did(run: Path) -> None:
    network = run / "RUN" / "network.json"
    record = json.loads((run / "RUN" / "run.json").read_text())
    assert set(record["emissions"]) == {"0", "1", "2"}
    same = invoke("infer", run / "data.csv", "--network", network, "-o", run / "SAME")
    assert same.exit_code == 0, same.output
    assert "As learned with the network (--emission), gaussian:" in same.stderr
    used = json.loads((run / "SAME" / "run.json").read_text())["emission"]
    assert used == record["emission"]
    other = invoke(
        *("infer", run / "data.csv", "--network", network, "-o", run / "OTHER"),
        *("--emission", "gaussian:-1,1:0.3"),
    )
    assert other.exit_code == 0, other.output
    assert "As asked, gaussian:-1,1:0.3" in other.stderr


def test_infer_takes_over_how_learn_read_the_table(tmp_path: Path) -> None:
    lines = ["t,mouse_id,A,B"]
    for mouse in range(4):
        for k in range(8):
            a = "lost" if k == 5 else str(1 + (k + mouse) // 2 % 4)
            lines.append(f"{k * 30} min,{mouse},{a},{1 + (k + mouse) // 3 % 4}")
    path = tmp_path / "mice.csv"
    path.write_text("\n".join(lines) + "\n")
    how = ["--missing", "lost", "--labels", "A,B", "--exact", "first"]
    learned = invoke(
        *("learn", path, *how, "--emission", "categorical:0.1", "--max-parents", 1),
        *("-o", tmp_path / "RUN", "--max-sweeps", 3, "--method", "star"),
    )
    assert learned.exit_code in (0, 4), learned.output
    record = json.loads((tmp_path / "RUN" / "run.json").read_text())
    assert record["complete"] is True
    assert record["time_unit"] == "min"
    hours = tmp_path / "hours.csv"
    hours.write_text("\n".join(_in_hours(line) for line in lines) + "\n")
    network = tmp_path / "RUN" / "network.json"
    same = invoke("infer", path, "--network", network, "-o", tmp_path / "SAME", "--json")
    assert same.exit_code in (0, 4), same.output
    for flag in ("--exact first", "--labels A,B", "--missing lost", "--unit min"):
        assert flag in same.stderr
    other = invoke("infer", hours, "--network", network, "-o", tmp_path / "HOURS", "--json")
    found = [json.loads(result.stdout)["log_evidence"] for result in (same, other)]
    assert found[0] == pytest.approx(found[1])
    with am.load(tmp_path / "SAME").posterior as posterior:
        assert [str(s) for s in posterior["state"].values] == ["1", "2", "3", "4"]


def _in_hours(line: str) -> str:
    time, rest = line.split(",", 1)
    return line if time == "t" else f"{float(time.split()[0]) / 60:g} h,{rest}"


def test_a_network_without_a_run_beside_it_is_as_before(run: Path, tmp_path: Path) -> None:
    alone = tmp_path / "network.json"
    alone.write_bytes((run / "RUN" / "network.json").read_bytes())
    for content in (None, '{"emissions": [1]}', '{"a": 1}'):
        if content is not None:
            (tmp_path / "run.json").write_text(content)
        result = invoke(
            *("infer", run / "data.csv", "--network", alone, "-o", tmp_path / "RUN", "--force")
        )
        assert result.exit_code == 0, result.output
        assert "As learned" not in result.stderr


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels, some of which are wrong."""
    network = am.glauber({"heart": [], "kidney": ["heart"]}, b=1.5)
    wrong = am.Categorical([[0.9, 0.1], [0.1, 0.9]])
    paths = am.simulate(network, 20, duration=6.0, seed=1)
    path = tmp_path_factory.mktemp("patients") / "visits.csv"
    am.observe(paths, wrong, n_observations=8, seed=2).to_csv(path)
    return path


def test_labels_that_may_be_wrong_stay_so(patients: Path, tmp_path: Path) -> None:
    result = invoke(
        *("learn", patients, "-o", tmp_path / "RUN", "--emission", "categorical"),
        *("--method", "star"),
    )
    assert result.exit_code == 0, result.output
    found = invoke(
        *("infer", patients, "--network", tmp_path / "RUN" / "network.json"),
        *("-o", tmp_path / "INF", "--json"),
    )
    assert "As learned with the network (--emission), categorical" in found.stderr
    used = json.loads((tmp_path / "RUN" / "run.json").read_text())["emissions"]
    emission = {node: emission_from_dict(one) for node, one in used.items()}
    assert emission["heart"].confusion[0][1] > 0.01
    network = am.Network.load(tmp_path / "RUN" / "network.json")
    again = am.infer(network, am.Observations.from_csv(patients), emission)
    assert json.loads(found.stdout)["log_evidence"] == pytest.approx(again.log_evidence)


@pytest.mark.parametrize("one_for_all", [True, False])
def test_infer_reads_what_a_learner_saved(run: Path, tmp_path: Path, one_for_all: bool) -> None:
    noise = am.Gaussian((-1, 1), 0.3)
    emission = noise if one_for_all else dict.fromkeys("012", noise)
    data = am.Observations.from_csv(run / "data.csv")
    learner = am.StructureLearner(emission, max_parents=1, n_jobs=1, method="star").fit(data)
    learner.save(tmp_path / "RUN")
    found = invoke(
        *("infer", run / "data.csv", "--network", tmp_path / "RUN" / "network.json"),
        *("-o", tmp_path / "INF", "--json"),
    )
    assert "As learned with the network (--emission), gaussian:-1,1:0.3" in found.stderr
    expected = am.infer(learner.network_, data, emission).log_evidence
    assert json.loads(found.stdout)["log_evidence"] == pytest.approx(expected)


def test_check_and_learn_refuse_states_that_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time,a,b\n0,x,u\n1,x,v\n1,y,v\n2,y,u\n")
    checked = invoke("check", path)
    assert checked.exit_code == 3
    assert "Error: Node 'a' has two different states at time 1" in checked.stdout
    assert json.loads(invoke("check", path, "--json").stdout)["ok"] is False
    assert invoke("learn", path, "-o", tmp_path / "RUN").exit_code == 3


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


def test_infer_takes_over_codes_and_interventions(tmp_path: Path) -> None:
    lines = ["patient,time_h,stage,gene"]
    for patient in range(4):
        for k in range(7):
            stage = "999" if k == 6 else "99" if k == 2 else str(1 + (k + patient) // 3 % 3)
            lines.append(f"{patient},{k},{stage},{(k + patient) // 2 % 2 + 0.1 * k:.1f}")
    path, held = tmp_path / "visits.csv", tmp_path / "held.csv"
    path.write_text("\n".join(lines) + "\n")
    held.write_text("trajectory,node,start,end,state\n0,gene,0,3,high\n")
    codes = ["--state-code", "stage:999=3", "--censored", "stage:99=1,2,3"]
    learned = invoke(
        *("learn", path, *codes, "--interventions", held, "-o", tmp_path / "RUN"),
        *("--max-parents", 1, "--max-sweeps", 2, "--states", 2, "--method", "star"),
    )
    assert learned.exit_code in (0, 4), learned.output
    network = tmp_path / "RUN" / "network.json"
    same = invoke("infer", path, "--network", network, "-o", tmp_path / "SAME")
    assert same.exit_code in (0, 4), same.output
    for words in (*codes, "Set by the experimenter (--interventions): 1 time, of gene."):
        assert words in same.stderr
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("\n".join(lines[:15]) + "\n")
    other = invoke("infer", fewer, "--network", network, "-o", tmp_path / "OTHER")
    assert other.exit_code in (0, 4), other.output
    assert "name their file with --interventions" in other.stderr
    assert "Set by the experimenter" not in other.stderr
