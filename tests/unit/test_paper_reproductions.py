"""Each reproduction, in a tiny form: its files, its verdicts, and what it must not do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from asterism.commands.reproduce import available
from asterism.errors import DataError
from asterism.paper import dream4, fig2, fig3, fig4, irma, table1
from tests.shared_data import DATA, needs

needs_data = needs("irma_replicates_dct.csv")


def assert_complete(folder: Path, name: str) -> None:
    for suffix in ("csv", "png", "svg"):
        assert (folder / f"{name}.{suffix}").stat().st_size > 0
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "What the paper leaves open" in page
    assert "nan" not in (folder / f"{name}.csv").read_text()


def test_the_command_finds_all_of_them() -> None:
    assert available() == ["dream4", "fig2", "fig3", "fig4", "irma", "table1"]


# ---- figure 2 ---------------------------------------------------------------------------------


def test_fig2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig2, "QUICK_SETS", 1)
    fig2.run(tmp_path, quick=True)
    assert_complete(tmp_path, "fig2")
    table = pd.read_csv(tmp_path / "fig2_differences.csv").set_index("method")
    courses = pd.read_csv(tmp_path / "fig2.csv")
    drawn = (courses["star_mean"] - courses["exact_mean"]).abs().max()
    assert table.loc["star", "largest_difference_drawn"] == pytest.approx(drawn, abs=1e-5)
    assert drawn < 0.3


def test_fig2_hides_one_node_for_a_while() -> None:
    _, _, seen = fig2.make_data(0)
    frame = seen.to_frame()
    gap = frame["time"].between(fig2.HIDDEN_FROM, fig2.HIDDEN_TO)
    assert gap.any()
    assert frame.loc[gap, fig2.HIDDEN_NODE].isna().all()
    assert frame.loc[gap, "0"].notna().all()
    assert frame.loc[~gap, fig2.HIDDEN_NODE].notna().all()


# ---- figure 3 ---------------------------------------------------------------------------------


def test_fig3_reproduces_known_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig3, "QUICK_COUPLINGS", (0.0, 0.6))
    monkeypatch.setattr(fig3, "QUICK_PAIRS", 0)
    fig3.run(tmp_path, quick=True)
    assert_complete(tmp_path, "fig3")
    table = pd.read_csv(tmp_path / "fig3.csv").set_index(["graph", "b"])
    tree, ring = table.loc[("tree", 0.6)], table.loc[("ring", 0.6)]
    assert tree["log_evidence"] == pytest.approx(-9.1703, abs=1e-4)
    assert tree["star_evidence_error"] == pytest.approx(0.1153, abs=1e-3)
    assert tree["mean_field_evidence_error"] == pytest.approx(-2.7253, abs=1e-3)
    assert ring["star_evidence_error"] == pytest.approx(0.4460, abs=1e-3)
    assert table.loc[("tree", 0.0), "star_transition_mse"] < 1e-8
    assert table["clusters_evidence_error"].abs().max() < 0.01
    assert (table["clusters_transition_mse"] <= 1e-3 * table["star_transition_mse"] + 1e-8).all()


def test_fig3_counts_who_is_closer() -> None:
    row = {"star_dwell_mse": 1.0, "mean_field_dwell_mse": 2.0}
    row |= {"star_transition_mse": 3.0, "mean_field_transition_mse": 2.0}
    row |= {"star_evidence_error": 0.5, "mean_field_evidence_error": -1.0}
    table = pd.DataFrame([{"graph": g, "b": b, **row} for g in fig3.GRAPHS for b in (0.0, 0.5)])
    wins = fig3.count_wins(table).set_index(["graph", "measure"])
    assert wins.loc[("ring", "dwell_mse"), "star_closer"] == 1
    assert wins.loc[("ring", "transition_mse"), "star_closer"] == 0
    assert wins.loc[("tree", "evidence_error"), "median_ratio"] == 0.5
    assert wins["cases"].eq(1).all()  # without coupling both are exact: no case
    assert sum("NOT closer" in line for line in fig3.statement(wins.reset_index())) == 2


# ---- table 1 ----------------------------------------------------------------------------------


def test_table1_learns_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {key: table1.PRINTED[key] for key in ((1, 5, 0.2), (2, 5, 0.2))}
    monkeypatch.setattr(table1, "PRINTED", rows)
    monkeypatch.setattr(table1, "QUICK_GRAPHS", 1)
    table1.run(tmp_path, quick=True)
    assert_complete(tmp_path, "table1")
    first = (tmp_path / "table1.csv").read_bytes()
    monkeypatch.setattr(table1, "learn_one", lambda *_: pytest.fail("computed again"))
    table1.run(tmp_path, quick=True)
    assert (tmp_path / "table1.csv").read_bytes() == first


def test_table1_verdicts() -> None:
    assert table1.verdict(0.80, 0.01, 0.78) == "at or above"
    assert table1.verdict(0.775, 0.01, 0.78) == "below, within one standard error"
    assert table1.verdict(0.70, 0.01, 0.78) == "below"


def test_table1_has_all_ten_rows_of_the_paper() -> None:
    assert len(table1.PRINTED) == 10
    assert table1.FULL_GRAPHS >= 50


# ---- figure 4 ---------------------------------------------------------------------------------


def test_fig4_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig4, "PAPER_SIZE", 4)
    monkeypatch.setattr(fig4, "QUICK", [("screened", 4, 40, 0.2, 1)])
    fig4.run(tmp_path, quick=True)
    assert_complete(tmp_path, "fig4")
    assert (tmp_path / "fig4_sizes.png").is_file()
    table = pd.read_csv(tmp_path / "fig4.csv")
    assert table.loc[0, "share_right"] >= 0.75


def test_fig4_draws_the_papers_own_search_where_it_ran() -> None:
    size = fig4.PAPER_SIZE
    found = [
        {"search": how, "nodes": n, "noise": s, "seed": seed}
        for how, n, s, seed in (
            ("screened", size, 0.2, 0),
            ("screened", size, 0.6, 0),
            ("exhaustive", size, 0.6, 0),
            ("exhaustive", size, 1.0, 1),
            ("exhaustive", 11, 1.0, 0),
        )
    ]
    drawn = [(f["noise"], f["search"]) for f in fig4.drawn_matrices(found)]
    assert drawn == [(0.6, "exhaustive"), (0.2, "screened")]


# ---- IRMA -------------------------------------------------------------------------------------


def test_irma_covers_every_setting() -> None:
    cases = irma.settings(irma.FULL_UNITS)
    assert len(cases) == (2 * 3 + 1) * 2 * 2 * 6
    assert {c["prior"] for c in cases} == {"auto", "paper"}


def test_irma_asks_for_its_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--data"):
        irma.run(tmp_path / "out")
    with pytest.raises(DataError, match=r"no file 'irma_replicates_dct.csv'"):
        irma.run(tmp_path / "out", data=tmp_path)


@needs_data
def test_irma_files() -> None:
    on = irma.read_replicates(DATA, "on", 20.0)
    off = irma.read_replicates(DATA, "off", 10.0)
    assert (on.n_trajectories, off.n_trajectories) == (5, 4)
    assert set(on.nodes) == set(irma.GENES)
    assert np.allclose(np.unique(np.diff(on.to_frame()["time"].unique())), 1.0)
    truth = irma.read_truth(DATA)
    assert {name: len(edges) for name, edges in truth.items()} == {"full8": 8, "simplified6": 6}
    assert irma.read_likelihoods(DATA, 10.0).n_measurements == 360


@needs_data
def test_irma_does_not_depend_on_the_unit_with_the_automatic_prior() -> None:
    case = {"experiment": "on", "emission": "threshold", "k": 1, "prior": "auto"}
    minutes = irma.learn({**case, "unit_minutes": 1.0}, DATA)
    hours = irma.learn({**case, "unit_minutes": 60.0}, DATA)
    assert minutes["edges"] == hours["edges"]
    assert np.allclose(minutes["probabilities"], hours["probabilities"], atol=1e-6)
    assert minutes["prior_wait_minutes"] == pytest.approx(hours["prior_wait_minutes"], rel=1e-6)


@needs_data
def test_irma_never_reads_the_truth_while_learning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is learned from a folder without the truth; only then is the truth missed."""
    (tmp_path / "irma_replicates_dct.csv").write_bytes(
        (DATA / "irma_replicates_dct.csv").read_bytes()
    )
    one = [{"experiment": "on", "emission": "threshold", "k": 1, "prior": "auto"}]
    monkeypatch.setattr(irma, "settings", lambda _: [{**c, "unit_minutes": 20.0} for c in one])
    with pytest.raises(DataError, match=r"irma_truth\.csv"):
        irma.run(tmp_path / "out", quick=True, data=tmp_path)
    n_learned = len(one) + len(irma.by_default())
    assert len((tmp_path / "out" / "rows.jsonl").read_text().splitlines()) == n_learned


# ---- DREAM4 -----------------------------------------------------------------------------------


def test_rankings_find_a_driver() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=60)
    b = np.concatenate([[0.0], a[:-1]]) + 0.1 * rng.normal(size=60)
    series = [pd.DataFrame({"a": a, "b": b, "c": rng.normal(size=60)})]
    for matrix in (dream4.lagged_correlation(series), dream4.forest(series, n_trees=30)):
        assert np.all(np.diag(matrix) == 0.0)
        assert matrix.to_numpy().max() == matrix.loc["a", "b"]


def made_and_decaying(seed: int) -> list[pd.DataFrame]:
    """Series of a, b and c at even times: b is made as a says and decays, c is on its own."""
    rng = np.random.default_rng(seed)
    series = []
    for _ in range(5):
        a, c = np.cumsum(rng.normal(size=(2, 30)), axis=1)
        b = np.zeros(30)
        for i in range(29):
            b[i + 1] = b[i] + 2.0 * (1.5 * a[i] - 0.1 * b[i]) + 0.1 * rng.normal()
        times = pd.Index(2.0 * np.arange(30.0), name="time")
        series.append(pd.DataFrame({"a": a, "b": b, "c": c}, index=times))
    return series


def test_a_forest_of_derivatives_finds_what_makes_a_slow_gene() -> None:
    series = made_and_decaying(0)
    matrix = dream4.dynamic_forest(series, n_trees=50)
    assert np.all(np.diag(matrix) == 0.0)
    assert matrix.to_numpy().max() == matrix.loc["a", "b"]
    # in what unit time is measured does not matter
    in_hours = [own.set_axis(own.index / 60.0) for own in series]
    np.testing.assert_allclose(dream4.dynamic_forest(in_hours, n_trees=50), matrix, rtol=1e-6)


def test_decay_rates_are_those_of_exponential_decay() -> None:
    time = pd.Index(np.linspace(0.0, 10.0, 21))
    zero = np.zeros(21)  # the lowest value, towards which the others decay
    falls, rises = np.exp(-0.3 * time), np.exp(0.2 * time) / 10.0
    slow = pd.DataFrame({"x": np.exp(-0.1 * time), "y": rises, "z": zero}, index=time)
    fast = pd.DataFrame({"x": falls, "y": 1.0 + zero, "z": zero}, index=time)
    np.testing.assert_allclose(dream4.decay_rates([slow, fast]), [0.3, 0.2, 0.0], atol=1e-12)


def test_random_rankings_score_by_chance() -> None:
    scores = dream4.random_scores([("a", "b"), ("b", "c")], ["a", "b", "c"], n=400)
    assert scores["auroc"] == pytest.approx(0.5, abs=4 * scores["auroc_se"] / 20)
    assert scores["auroc_se"] > 0.1
    # average precision of two edges at random among six places: mean over all fifteen placements
    places = [(i, j) for i in range(1, 7) for j in range(i + 1, 7)]
    expected = np.mean([(1 / i + 2 / j) / 2 for i, j in places])
    assert scores["aupr"] == pytest.approx(expected, abs=4 * scores["aupr_se"] / 20)


@needs_data
def test_dream4_says_what_does_not_beat_random() -> None:
    names = ["G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G10"]
    truth = set(dream4.read_edges(DATA, "size10_1"))
    perfect = [[float((p, c) in truth) for c in names] for p in names]
    flat = np.zeros((10, 10)).tolist()
    found = [
        {"network": "size10_1", "method": m, "genes": names, "scores": s}
        for m, s in (("asterism", perfect), ("forest", flat))
    ]
    table = dream4.scored(found, DATA)
    said = dream4.sentences(table)
    assert " beats " in said[0]
    assert "does NOT beat" in said[1]
    assert table["beats_random"].tolist()[:2] == [True, False]
