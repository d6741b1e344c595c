"""Figures: the right things are drawn on the right axes."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

import asterism as am
from asterism.errors import DataError
from asterism.report import plots
from asterism.report.graph_layout import positions
from asterism.results.run import Run
from tests.example_runs import TRUE_PARENTS, example_run, weak_run, with_rate_intervals


def arrows(ax: object) -> list[FancyArrowPatch]:
    return [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]  # type: ignore[attr-defined]


def test_axes_given_are_axes_returned() -> None:
    run = example_run()
    axes = Figure().subplots(2, 2).ravel()
    assert plots.graph(run, ax=axes[0]) is axes[0]
    assert plots.posterior(run, "SWI5", ax=axes[1]) is axes[1]
    assert plots.edges(run, ax=axes[2]) is axes[2]
    assert plots.roc(run, ax=axes[3]) is axes[3]


def test_public_name() -> None:
    assert am.plots is plots


@pytest.mark.smoke
def test_graph_draws_edges_above_the_threshold_with_widths_by_probability() -> None:
    run = example_run()
    ax = plots.graph(run, threshold=0.3)
    expected = run.edge_table[run.edge_table["probability"] >= 0.3]
    drawn = arrows(ax)
    assert len(drawn) == len(expected)
    widths = [patch.get_linewidth() for patch in drawn]
    assert widths == sorted(widths, reverse=True)
    assert {text.get_text() for text in ax.texts} == set(TRUE_PARENTS)


def test_legend_of_the_graph_names_what_is_drawn_and_the_threshold() -> None:
    legend = plots.graph(example_run(), threshold=0.3).get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "probability ≥ 0.3; width: probability"
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["raises", "lowers", "not in the graph"]
    bare = plots.graph(example_run().network).get_legend()
    assert bare is not None
    assert bare.get_title().get_text() == ""
    assert plots.graph(example_run(), legend=False).get_legend() is None


def test_graph_of_a_bare_network_draws_its_edges() -> None:
    assert len(arrows(plots.graph(example_run().network))) == 9


def test_posterior_shows_the_measurements_of_the_trajectory() -> None:
    run = example_run()
    table = run.observations
    assert table is not None
    own = table[(table["trajectory"] == 2) & (table["node"] == "ASH1")]
    ax = plots.posterior(run, "ASH1", 2)
    measured = next(line for line in ax.lines if line.get_label() == "measured")
    np.testing.assert_allclose(np.sort(own["value"]), np.sort(measured.get_ydata()))


def test_posterior_without_measurements_stacks_states() -> None:
    run = example_run(states=("a", "b", "c"), labels=True)
    assert run.posterior is not None
    for source in (run, run.posterior):
        ax = plots.posterior(source, "ASH1")
        assert len(ax.collections) >= 3
        assert ax.get_ylim() == (0, 1)


def test_posterior_of_a_continuous_node_is_its_mean_and_band() -> None:
    network = am.Network({"A": []}, drifts={"A": am.Drift(0.5, 1.0, noise_sd=0.1)})
    paths = am.simulate(network, 2, duration=5.0, seed=1)
    marginals = am.infer(network, am.observe(paths, interval=1.0, seed=2)).marginals()
    ax = plots.posterior(marginals, "A", marginals["trajectory"].values[1])
    mean = next(line for line in ax.lines if line.get_label() == "expected").get_ydata()
    np.testing.assert_array_equal(mean, marginals[1].sel(node="A", quantity="mean"))
    edge = ax.collections[0].get_paths()[0].vertices[:, 1]
    sd = marginals[1].sel(node="A", quantity="sd").to_numpy()
    assert edge.max() == pytest.approx((mean + 1.645 * sd).max(), rel=1e-3)
    for node, trajectory in (("B", None), ("A", "none")):
        with pytest.raises(DataError, match="has no"):
            plots.posterior(marginals, node, trajectory)


@pytest.mark.parametrize(
    ("node", "trajectory", "message"), [("X", None, "no node 'X'"), ("ASH1", 99, "trajectory 99")]
)
def test_unknown_node_or_trajectory_is_named(node: str, trajectory: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        plots.posterior(example_run(), node, trajectory)


def test_heat_map_has_parents_in_rows() -> None:
    run = example_run()
    ax = plots.edges(run.edge_probabilities)
    image = ax.images[0].get_array()
    assert image is not None
    nodes = list(run.network.nodes)
    table = run.edge_probabilities
    i, j = nodes.index("SWI5"), nodes.index("GAL80")
    assert image[i, j] == table.loc["SWI5", "GAL80"]
    assert image.mask[i, i]
    assert [t.get_text() for t in ax.get_yticklabels()] == nodes


def test_heat_map_marks_the_prior_where_it_is_known() -> None:
    def priors(run: Run) -> list[float]:
        axes = plots.edges(run).figure.axes
        return [
            line.get_ydata()[0] for ax in axes for line in ax.lines if line.get_gid() == "prior"
        ]

    assert priors(with_rate_intervals(example_run())) == [0.125]
    assert priors(example_run()) == []


def test_precision_is_drawn_beside_that_of_guessing() -> None:
    lines = plots.roc(example_run(), kind="pr").lines
    (baseline,) = (line for line in lines if line.get_gid() == "baseline")
    assert baseline.get_ydata()[0] == pytest.approx(9 / 56)


def test_roc_curves_can_be_compared_on_one_axes() -> None:
    run = example_run()
    worse = run.edge_table.assign(probability=np.linspace(0, 1, len(run.edge_table)))
    ax = plots.roc(run, label="star")
    plots.roc(worse, run.truth, nodes=run.network.nodes, label="worse", ax=ax)
    curves = [line for line in ax.lines if line.get_gid() == "curve"]
    assert len({line.get_color() for line in curves}) == 2
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["star 1.00", "guessing", "worse 0.00"]


def test_roc_needs_a_truth_and_a_known_kind() -> None:
    run = example_run(truth=False)
    with pytest.raises(DataError, match="truth="):
        plots.roc(run)
    with pytest.raises(DataError, match="'roc' or 'pr'"):
        plots.roc(run, kind="prc")
    assert plots.roc(example_run(), kind="pr").get_xlabel() == "recall"


def test_figures_are_saved_in_every_format(tmp_path: Path) -> None:
    files = plots.save_figures(example_run(), tmp_path / "figures", formats=("png", "svg", "pdf"))
    names = {path.stem for path in files}
    assert names == {"network", "ranking", "edges", "roc", "precision_recall", "course"}
    assert len(files) == 18
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    for path in files:
        assert path.read_bytes().startswith(starts[path.suffix])
    assert len(list((tmp_path / "figures").iterdir())) == 18


def test_figures_show_the_nodes_and_the_threshold_asked_for(tmp_path: Path) -> None:
    names = ["GAL4", "a/b c"]
    run = example_run({names[0]: [], names[1]: [names[0]]}, truth=False)
    files = plots.save_figures(run, tmp_path, ("svg",), threshold=0.2, nodes=names)
    assert [path.name for path in files if "course" in path.name] == [
        "course_GAL4.svg",
        "course_a_b_c.svg",
    ]


def test_unknown_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="bmp3"):
        plots.save_figures(example_run(), tmp_path / "figures", formats=("png", "bmp3"))
    assert not (tmp_path / "figures").exists()


def test_layout_keeps_nodes_apart_and_repeats_itself() -> None:
    graph = nx.gnp_random_graph(40, 0.04, seed=3, directed=True)
    place = positions(graph)
    assert place == positions(graph)
    points = np.array(list(place.values()))
    gaps = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    assert np.min(gaps + 9 * np.eye(len(points))) > 0.5


def test_long_table_makes_the_same_heat_map() -> None:
    run = example_run()
    rows = run.edge_table[["parent", "child", "probability"]]
    image = plots.edges(pd.DataFrame(rows)).images[0].get_array()
    assert image is not None
    assert image.shape == (8, 8)


@pytest.fixture(scope="module")
def panel_fit() -> am.ParameterLearner:
    """Well, ill and dead, seen at visits, with the sex of each person."""
    rates = np.array([[0, 0.5, 0.1], [0.3, 0, 0.4], [0, 0, 0]])
    network = am.Network({"state": []}, {"state": rates}, {"state": ["well", "ill", "dead"]})
    paths = am.simulate(network, n_trajectories=60, duration=6.0, seed=1)
    frame = am.observe(paths, am.Exact(), n_observations=6, seed=2).to_frame()
    frame["sex"] = frame["trajectory"].astype(int) % 2
    obs = am.Observations.from_frame(frame, covariates=["sex"])
    return am.ParameterLearner(
        {"state": []},
        states={"state": ["well", "ill", "dead"]},
        allowed_transitions={"state": "well>ill, well>dead, ill>well, ill>dead"},
        covariates=["sex"],
    ).fit(obs)


def test_figures_of_a_fit_show_its_numbers(panel_fit: am.ParameterLearner, tmp_path: Path) -> None:
    run = am.load(panel_fit.save(tmp_path / "RUN"))
    for fit in (panel_fit, run):
        curves = [line for line in plots.survival(fit).lines if line.get_gid() == "fitted"]
        assert len(curves) == 2  # from well and from ill; the dead do not come back
        assert all(np.diff(line.get_ydata()).max() <= 1e-12 for line in curves)
        shown = plots.prevalence(fit).lines
        assert sum(line.get_gid() == "expected" for line in shown) == 3
        forest = plots.forest(fit)
        assert len(forest.get_yticklabels()) == 4
        dots = forest.lines[-1].get_xdata()
        assert list(dots) == pytest.approx(list(panel_fit.effects_["hazard_ratio"]))
        rates = [t.get_text() for t in plots.transitions(fit).texts if t.get_gid() == "rate"]
        assert len(rates) == 4
        assert len(plots.sojourn(fit).get_yticklabels()) == 2
    with pytest.raises(DataError, match="no node"):
        plots.transitions(panel_fit, "liver")


def test_numbers_between_four_states_do_not_collide() -> None:
    states = ["stable", "worse", "hospital", "remission"]
    rates = pd.DataFrame(
        [("s", "", a, b, 3.07, 2.0, 4.0) for a in states for b in states if a != b],
        columns=["node", "configuration", "from", "to", "rate", "lower", "upper"],
    )
    network = am.Network({"s": []}, {"s": np.ones((4, 4)) - np.eye(4)}, {"s": states})
    ax = plots.transitions(Run(network, rates=rates))
    ax.figure.canvas.draw()
    boxes = [t.get_window_extent() for t in ax.texts if t.get_gid() == "rate"]
    assert len(boxes) == 12
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_the_ranking_shows_the_surest_edges_with_their_signs() -> None:
    run = weak_run()
    for given in (run, run.edge_table):
        axes = plots.ranking(given)
        top = run.edge_table.head(10)
        names = [f"{p} → {c}" for p, c in zip(top["parent"], top["child"])]
        assert [text.get_text() for text in axes.get_yticklabels()] == names
        widths = [bar.get_width() for bar in axes.patches]
        np.testing.assert_allclose(widths, top["probability"])
        assert f"about {top['probability'].sum():.1f} of these 10" in axes.get_title("left")
    assert len(plots.ranking(run, 3, labels=False).texts) == 0
    signs = {"raises": "↑", "lowers": "↓", "mixed": "↕", "none": "="}
    for text, kind in zip(axes.texts, top["effect"]):
        assert not kind or text.get_text().startswith(signs[kind])
    with pytest.raises(DataError, match="fitted learner"):
        plots.ranking("edges.csv")
