"""P(Y | graph) of two binary nodes with the rates integrated out: importance sampling, plainly.

The likelihood is that of the joint chain (four states, one matrix exponential per gap). Samples of
ln R come from a multivariate t around the posterior mode, so that a few thousand of them give the
evidence to about a hundredth. For the graph without edges the two nodes separate, and quadrature
over two rates each checks the sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.stats import gamma, multivariate_t

import asterism as am

FloatArray = np.ndarray[Any, Any]
GRAPHS: dict[str, dict[str, list[str]]] = {
    "none": {"A": [], "B": []},
    "A to B": {"A": [], "B": ["A"]},
    "B to A": {"A": ["B"], "B": []},
    "both": {"A": ["B"], "B": ["A"]},
}
NOISE, PRIOR = am.Gaussian((-1, 1), 0.4), am.GammaPrior(5.0, 10.0)
DURATION, N_OBSERVATIONS = 5.0, 10
_DEGREES = 5.0


def data(truth: str, seed: int, n_trajectories: int, a: float = 1.0, b: float = 1.0) -> Any:
    """Noisy measurements of two Glauber spins, at random times common to all trajectories."""
    network = am.glauber(GRAPHS[truth], a=a, b=b)
    times = np.sort(np.random.default_rng(seed).uniform(0.0, DURATION, N_OBSERVATIONS))
    paths = am.simulate(network, n_trajectories, duration=DURATION, seed=seed)
    return am.observe(paths, NOISE, times=times, seed=seed + 1000)


@dataclass(frozen=True)
class TwoNodes:
    """Measured values and their times; joint state 2 x_A + x_B; each start equally probable."""

    gaps: FloatArray
    likelihoods: FloatArray
    """(time, trajectory, joint state)"""

    @classmethod
    def of(cls, obs: am.Observations) -> TwoNodes:
        table = obs.to_frame().sort_values(["time", "trajectory"])
        times = np.unique(table["time"])
        values = table[["A", "B"]].to_numpy().reshape(len(times), -1, 2)
        offset = (values[..., None] - np.array(NOISE.means)) / NOISE.scale
        density = np.exp(-0.5 * offset**2) / (NOISE.scale * np.sqrt(2.0 * np.pi))
        joint = density[:, :, 0, :, None] * density[:, :, 1, None, :]
        # before the first and after the last measurement nothing is seen
        return cls(np.diff(times, prepend=0.0), joint.reshape(*joint.shape[:2], 4))

    def log_likelihood(self, generator: FloatArray) -> float:
        """ln P(Y | R) on the joint chain."""
        alpha = np.full((self.likelihoods.shape[1], 4), 0.25)
        for gap, likelihood in zip(self.gaps, self.likelihoods):
            alpha = (alpha @ expm(gap * generator)) * likelihood
        return float(np.log(alpha.sum(axis=1)).sum())


def generator_of(graph: str, rates: FloatArray) -> FloatArray:
    """The joint generator; rates by node, state of the parent if any, and state left."""
    n_first = 2 if not GRAPHS[graph]["A"] else 4
    tables = [np.resize(own, (2, 2)) for own in (rates[:n_first], rates[n_first:])]
    q = np.zeros((4, 4))
    for a in (0, 1):
        for b in (0, 1):
            q[2 * a + b, 2 * (1 - a) + b] = tables[0][b, a]
            q[2 * a + b, 2 * a + 1 - b] = tables[1][a, b]
    np.fill_diagonal(q, -q.sum(axis=1))
    return q


def n_rates(graph: str) -> int:
    return sum(4 if above else 2 for above in GRAPHS[graph].values())


def log_evidence(
    nodes: TwoNodes, graph: str, n_samples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """ln ∫ P(Y | R) p(R) dR and its standard error."""
    size, prior = n_rates(graph), gamma(PRIOR.shape, scale=1.0 / PRIOR.rate)

    def log_posterior(logs: FloatArray) -> float:
        """Density of ln R times the likelihood."""
        seen = nodes.log_likelihood(generator_of(graph, np.exp(logs)))
        return seen + float(np.sum(prior.logpdf(np.exp(logs)) + logs))

    mode = minimize(lambda x: -log_posterior(x), np.full(size, np.log(0.5)), method="L-BFGS-B").x
    spread = np.linalg.inv(-second_differences(log_posterior, mode))
    proposal = multivariate_t(mode, spread, df=_DEGREES, seed=seed)
    samples = np.asarray(proposal.rvs(n_samples)).reshape(n_samples, size)
    weight = np.array([log_posterior(x) for x in samples]) - proposal.logpdf(samples)
    top = weight.max()
    scaled = np.exp(weight - top)
    error = scaled.std(ddof=1) / np.sqrt(n_samples) / scaled.mean()
    return float(top + np.log(scaled.mean())), float(error)


def second_differences(function: Any, at: FloatArray, step: float = 0.02) -> FloatArray:
    moves = step * np.eye(len(at))
    return np.array(
        [
            [
                function(at + i + j) - function(at + i - j)
                - function(at - i + j) + function(at - i - j)
                for j in moves
            ]
            for i in moves
        ]
    ) / (4.0 * step**2)  # fmt: skip


def log_evidence_without_edges(nodes: TwoNodes, n_points: int = 24) -> float:
    """The same for no edges by Gauss–Legendre over the two rates of each node alone."""
    x, weight = np.polynomial.legendre.leggauss(n_points)
    prior = gamma(PRIOR.shape, scale=1.0 / PRIOR.rate)
    # over the prior's distribution function, which maps the rates onto (0, 1)
    rates, weight = prior.ppf(0.5 * (x + 1.0)), 0.5 * weight
    pair = nodes.likelihoods.reshape(*nodes.likelihoods.shape[:2], 2, 2)
    scale = pair.sum(axis=(2, 3))
    total = float(np.log(scale).sum())
    for axis in (3, 2):  # the likelihood is a product: each factor up to the common scale
        own = pair.sum(axis=axis) / scale[..., None]
        logs = np.empty((n_points, n_points))
        for i, up in enumerate(rates):
            for j, down in enumerate(rates):
                q = np.array([[-up, up], [down, -down]])
                alpha = np.full((own.shape[1], 2), 0.5)
                for gap, likelihood in zip(nodes.gaps, own):
                    alpha = (alpha @ expm(gap * q)) * likelihood
                logs[i, j] = np.log(alpha.sum(axis=1)).sum()
        top = logs.max()
        total += top + np.log(weight @ np.exp(logs - top) @ weight)
    return total
