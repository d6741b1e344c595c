"""When draws of edges have converged, and when an answer can be used although they have not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asterism.learning.search.sampled import check_edges, judge_edges


def drawn(*chains_of_edges: Any) -> Any:
    """Draws (chains, draws, edges) as a run of chains holds them."""
    edges = np.stack(chains_of_edges, axis=2)
    return SimpleNamespace(series=lambda name: edges)


def around(mean: float, rng: np.random.Generator, apart: float = 0.0, slow: float = 0.0) -> Any:
    """(4, 400) draws near a mean; ``slow``: how much of the last draw each one keeps."""
    noise = rng.normal(size=(4, 400)) * 0.05
    for i in range(1, 400):
        noise[:, i] = slow * noise[:, i - 1] + np.sqrt(1.0 - slow**2) * noise[:, i]
    return mean + noise + apart * np.arange(4)[:, None]


def test_converged_needs_every_unsure_edge() -> None:
    rng = np.random.default_rng(0)
    good = drawn(around(0.5, rng), around(0.3, rng))
    assert check_edges(good).converged
    assert judge_edges(good)[1]
    one_apart = check_edges(drawn(around(0.5, rng), around(0.3, rng, apart=0.2)))
    assert not one_apart.converged
    assert one_apart.usable
    assert "1 of 2 edges" in one_apart.words
    assert "50 %" in one_apart.words


def test_few_effective_draws_are_not_converged() -> None:
    """Chains that agree, but hardly move: R̂ alone would be content."""
    rng = np.random.default_rng(1)
    check = check_edges(drawn(around(0.5, rng, slow=0.9)))
    assert check.worst.effective < 100.0
    assert not check.converged


def test_sure_edges_do_not_count() -> None:
    rng = np.random.default_rng(2)
    sure = 0.005 + 0.004 * np.sign(around(0.0, rng, slow=0.99))
    check = check_edges(drawn(around(0.5, rng), sure))
    assert (check.n_unsure, check.n_known) == (1, 1)
    assert check.converged


def test_answers_that_should_not_be_used() -> None:
    rng = np.random.default_rng(3)
    apart = drawn(around(0.2, rng, apart=0.2), around(0.1, rng, apart=0.25))
    assert not check_edges(apart).usable
    few = SimpleNamespace(series=lambda name: np.zeros((4, 2, 3)))
    assert not check_edges(few).usable  # type: ignore[arg-type]
    assert not check_edges(few).converged  # type: ignore[arg-type]


@pytest.mark.parametrize("n_draws", [0, 400])
def test_without_edges_nothing_is_unsure(n_draws: int) -> None:
    none = SimpleNamespace(series=lambda name: np.zeros((4, n_draws, 0)))
    assert check_edges(none).converged  # type: ignore[arg-type]
