"""What is said about how far an answer is off: one sentence, and a warning for the star."""

from __future__ import annotations

import pandas as pd
import pytest

import asterism as am
from asterism.errors import AsterismError
from asterism.inference.accuracy import must_compile, quick_sentence

NOISE = am.Gaussian((-1, 1), 0.8)
PAIR = am.glauber({"A": ["B"], "B": ["A"]}, a=2.0, b=1.2)


def posterior(network: am.Network, method: str, n: int = 7):  # type: ignore[no-untyped-def]
    paths = am.simulate(network, n, duration=3.0, seed=1)
    obs = am.observe(paths, NOISE, n_observations=3, seed=2)
    return am.infer(network, obs, NOISE, method=method)


def test_the_star_is_warned_about_where_it_is_off() -> None:
    sentence, is_off = quick_sentence(posterior(PAIR, "star")) or ("", False)
    assert is_off
    assert sentence.startswith("Checked on 5 of 7 trajectories against exact inference: expected")
    assert "That is more than 5%: where rates, transitions or the evidence matter" in sentence
    assert sentence.endswith("use method='clusters'.")


def test_clusters_are_not() -> None:
    sentence, is_off = quick_sentence(posterior(PAIR, "clusters", 1)) or ("", True)
    assert not is_off
    assert "Checked on 1 trajectory against exact inference" in sentence
    assert "off by less than 0.1%, probabilities by at most 0.001." in sentence


@pytest.mark.parametrize("method", ["star", "exact"])
def test_nothing_is_said_where_there_is_no_error(method: str) -> None:
    free = am.glauber({"A": [], "B": []}, a=2.0, b=1.2)
    assert quick_sentence(posterior(free, method)) is None
    assert quick_sentence(posterior(PAIR, "exact")) is None


def test_infer_prints_the_sentence(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    from asterism.cli import main

    PAIR.save(tmp_path / "pair.json")
    obs = am.observe(am.simulate(PAIR, 2, duration=3.0, seed=1), NOISE, n_observations=3, seed=2)
    table: pd.DataFrame = obs.to_frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(SystemExit) as ended:
        main(["infer", str(tmp_path / "t.csv"), "--network", str(tmp_path / "pair.json"),
              "-o", str(tmp_path / "RUN"), "--emission", "gaussian:-1,1:0.8"])  # fmt: skip
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Checked on 2 trajectories against exact inference" in said
    assert "use --method clusters" in said


def test_it_is_known_whether_the_better_method_must_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from asterism.numerics import _jit

    found = posterior(PAIR, "star", 1)
    quick_sentence(found)
    assert not must_compile(found)
    monkeypatch.setattr(_jit, "is_on_disk", lambda _: False)
    assert must_compile(found)


def test_draws_have_errors_of_their_own() -> None:
    network = am.glauber({"A": [], "B": ["A"]})
    obs = am.observe(am.simulate(network, 2, duration=2.0, seed=1), NOISE, n_observations=3, seed=2)
    with pytest.warns(UserWarning, match="draws"):
        sampled = am.infer(network, obs, NOISE, method="sample", n_draws=50, seed=0)
    with pytest.raises(AsterismError, match="errors"):
        _ = sampled.accuracy
    assert (sampled.errors.statistics.transitions["B"] >= 0).all()
