"""Structure from complete paths: time beside a straightforward numpy version of the same score.

20 binary nodes with 1 or 2 parents, log-uniform rates between 0.25 and 4, 50 trajectories of
length 20, every family of up to 2 parents (3,820 of them). Both score the same families, and the
scores are compared; ``fit`` must be ten times faster. Its time includes everything:
probabilities, network, tables.
Run: python benchmarks/complete_data.py [--graphs 40]
"""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
from common import best_of, option_parser
from numpy.typing import NDArray
from scipy.special import gammaln

import asterism as am

N_NODES, MAX_PARENTS = 20, 2
REPEATS = 7


def data(seed: int) -> tuple[am.Network, am.Trajectories]:
    """A random network and its paths."""
    net = am.random_network(N_NODES, max_parents=MAX_PARENTS, min_parents=1, seed=seed)
    return net, am.simulate(net, n_trajectories=50, duration=20.0, seed=seed)


def numpy_scores(
    paths: am.Trajectories, shape: float, rate: float
) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every family by array operations over the intervals between jumps."""
    states, lengths, movers, entered = intervals(paths)
    sizes = [len(paths.states[n]) for n in paths.nodes]
    constant = shape * np.log(rate) - gammaln(shape)
    scores = {}
    for child, name in enumerate(paths.nodes):
        own = sizes[child]
        jumps = np.flatnonzero(movers == child)  # intervals that end with a jump of the child
        off = ~np.eye(own, dtype=bool)
        others = [n for n in range(len(sizes)) if n != child]
        for count in range(MAX_PARENTS + 1):
            for parents in combinations(others, count):
                cell, n_cells = states[child], own
                for p in reversed(parents):
                    cell = cell + n_cells * states[p]
                    n_cells *= sizes[p]
                dwell = np.bincount(cell, lengths, n_cells).reshape(-1, own, 1)
                pair = cell[jumps] * own + entered[jumps]
                moves = np.bincount(pair, minlength=n_cells * own).reshape(-1, own, own)
                terms = constant + gammaln(moves + shape) - (moves + shape) * np.log(dwell + rate)
                key = (name, tuple(paths.nodes[p] for p in parents))
                scores[key] = float(terms[:, off].sum())
    return scores


def intervals(paths: am.Trajectories) -> tuple[NDArray[np.int64], ...]:
    """States (N, K) between jumps, lengths, and which node enters which state at the end."""
    states, lengths, movers, entered = [], [], [], []
    for d in range(paths.n_trajectories):
        here = slice(paths.jump_offset[d], paths.jump_offset[d + 1])
        node, new = paths.jump_node[here], paths.jump_state[here]
        block = np.repeat(paths.initial[d][:, None], len(node) + 1, axis=1)
        for i in range(len(node)):
            block[node[i], i + 1 :] = new[i]
        times = np.concatenate([[paths.start[d]], paths.jump_time[here], [paths.end[d]]])
        states.append(block)
        lengths.append(np.diff(times))
        movers.append(np.append(node, -1))
        entered.append(np.append(new, -1))
    return (
        np.concatenate(states, axis=1),
        np.concatenate(lengths),
        np.concatenate(movers),
        np.concatenate(entered),
    )


def f1(net: am.Network, learner: am.StructureLearner) -> float:
    return float(
        am.metrics.edge_scores(learner.edge_probabilities_, net, graph=learner.graph_)["f1"]
    )


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--graphs", type=int, default=10, help="random graphs for the F1")
    options = parser.parse_args()

    net, paths = data(seed=0)
    learner = am.StructureLearner(max_parents=MAX_PARENTS, n_jobs=1).fit(paths)  # compiles
    families = learner.family_scores_
    print(f"{paths.n_jumps:,} jumps, {len(families):,} families")
    prior = learner.prior_
    reference = numpy_scores(paths, prior.shape, prior.rate_value)
    slow = best_of(lambda: numpy_scores(paths, prior.shape, prior.rate_value), 3)
    apart = max(abs(row.score - reference[row.node, row.parents]) for row in families.itertuples())
    assert len(reference) == len(families)
    assert apart < 1e-9, apart
    print(f"numpy:             {1e3 * slow:7.1f} ms, scores differ by at most {apart:.1e}")
    for n_jobs in (1, 2):
        ours = am.StructureLearner(max_parents=MAX_PARENTS, n_jobs=n_jobs)
        best = best_of(partial(ours.fit, paths), REPEATS)
        print(f"fit, {n_jobs} thread(s):  {1e3 * best:7.1f} ms, {slow / best:.1f} times faster")

    for shape in (0.5, 5.0):
        prior = am.GammaPrior(shape)
        scores = []
        for seed in range(options.graphs):
            net, paths = data(seed)
            found = am.StructureLearner(max_parents=MAX_PARENTS, prior=prior).fit(paths)
            scores.append(f1(net, found))
        print(
            f"F1, {prior}: mean {np.mean(scores):.4f} over {options.graphs} graphs, "
            f"median {np.median(scores):.4f}, lowest {min(scores):.4f}"
        )


if __name__ == "__main__":
    main()
