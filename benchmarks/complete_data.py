"""Structure from complete paths: time beside a straightforward numpy version of the same score.

20 binary nodes with 1 or 2 parents, log-uniform rates between 0.25 and 4, 50 trajectories of
length 20, every family of up to 2 parents (3,820 of them). Both score the same families, and the
scores are compared; ``fit`` must be ten times faster. Its time includes everything:
probabilities, network, tables. Then, which edges come back: complete_recovery.csv has their F1 for
two priors and for a learner that knows the distributions which graphs and rates are drawn from, on
the first 40 graphs and on all others; complete_edges.csv has the share found by the largest factor
by which a parent changes a rate of its child.
Run: python benchmarks/complete_data.py -o out/ [--graphs 160]
"""

from __future__ import annotations

from functools import partial
from itertools import chain, combinations, pairwise
from math import comb
from typing import Any

import numpy as np
import pandas as pd
from common import best_of, option_parser, write_table
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, softmax

import asterism as am

N_NODES, MAX_PARENTS = 20, 2
REPEATS = 7
#: shapes of the prior: the default, and one that punishes needless parents more
SHAPES = (5.0, 0.5)
RATES = (0.25, 4.0)
#: what graphs are learned with, by name
PRIORS = [*(f"shape {shape:g}" for shape in SHAPES), "as drawn"]
#: graphs whose F1 is to reach 0.99
FIRST = 40
#: bounds of the factors by which edges are sorted
FACTORS = (1.0, 1.2, 1.5, 2.0, 3.0, np.inf)


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


# ---- what comes back --------------------------------------------------------------------------


def largest_factors(net: am.Network) -> dict[tuple[str, str], float]:
    """(parent, child): by how much the parent changes the rate that it changes most."""
    found = {}
    for child, parents in net.parents.items():
        rates = np.log(np.asarray(net.rates[child])[..., [0, 1], [1, 0]])
        rates = rates.reshape(*[2] * len(parents), 2)
        for i, parent in enumerate(parents):
            found[parent, child] = float(np.exp(np.abs(np.diff(rates, axis=i)).max()))
    return found


def recovered(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Right, false and missed edges for every prior; the edges, by the first of the priors."""
    net, paths = data(seed)
    factors = largest_factors(net)
    found = {}
    for name, shape in zip(PRIORS, SHAPES):
        learner = am.StructureLearner(max_parents=MAX_PARENTS, prior=am.GammaPrior(shape))
        found[name] = set(learner.fit(paths).graph_.edges)
    found["as drawn"] = edges_of_the_informed(paths)
    graphs = []
    for name, edges in found.items():
        right = len(edges & set(factors))
        row = {"seed": seed, "prior": name, "right": right, "false": len(edges) - right}
        graphs.append(row | {"missed": len(factors) - right})
    default = found[PRIORS[0]]
    return graphs, [{"factor": f, "found": edge in default} for edge, f in factors.items()]


def edges_of_the_informed(paths: am.Trajectories) -> set[tuple[str, str]]:
    """Edges more probable than not under the distributions that graphs and rates are drawn from.

    One or two parents, equally probable, then any; every rate log-uniform, integrated over a grid.
    """
    logs = np.linspace(*np.log(RATES), 201)
    weights = np.full(len(logs), 1.0 / (len(logs) - 1))
    weights[[0, -1]] /= 2.0
    states, lengths, movers, _ = intervals(paths)
    edges = set()
    for child, name in enumerate(paths.nodes):
        jumps = np.flatnonzero(movers == child)
        others = [n for n in range(len(paths.nodes)) if n != child]
        families = [f for k in (1, 2) for f in combinations(others, k)]
        scores = np.empty(len(families))
        for i, parents in enumerate(families):
            cell, n_cells = states[child], 2
            for p in parents:
                cell = cell + n_cells * states[p]
                n_cells *= 2
            dwell = np.bincount(cell, lengths, n_cells)[:, None]
            moves = np.bincount(cell[jumps], minlength=n_cells)[:, None]
            terms = logsumexp(moves * logs - dwell * np.exp(logs), axis=1, b=weights)
            scores[i] = terms.sum() - np.log(comb(len(others), len(parents)))
        probability = softmax(scores)
        for parent in others:
            holds = [parent in family for family in families]
            if probability[holds].sum() > 0.5:
                edges.add((paths.nodes[parent], name))
    return edges


def recovery_table(graphs: pd.DataFrame) -> pd.DataFrame:
    """F1 by prior, for the first graphs, for the others, and for all."""
    graphs["f1"] = 2 * graphs["right"] / (2 * graphs["right"] + graphs["false"] + graphs["missed"])
    last = int(graphs["seed"].max())
    parts = [(0, min(FIRST - 1, last)), *([(FIRST, last), (0, last)] if last >= FIRST else [])]
    rows = []
    for prior in PRIORS:
        for first, end in parts:
            own = graphs[(graphs["prior"] == prior) & graphs["seed"].between(first, end)]
            rows.append(
                {
                    "prior": prior,
                    "seeds": f"{first}–{end}",
                    "f1": own["f1"].mean(),
                    "f1_se": own["f1"].std() / np.sqrt(len(own)),
                    "perfect": (own["f1"] == 1.0).mean(),
                    "edges": int((own["right"] + own["missed"]).sum()),
                    "false": int(own["false"].sum()),
                    "missed": int(own["missed"].sum()),
                }
            )
    return pd.DataFrame(rows)


def edge_table(edges: pd.DataFrame) -> pd.DataFrame:
    """The share of edges found, by the strength of their effect."""
    rows = []
    for low, high in pairwise(FACTORS):
        own = edges[(edges["factor"] >= low) & (edges["factor"] < high)]
        name = f"{low:g} to {high:g}" if np.isfinite(high) else f"more than {low:g}"
        missed = int((~own["found"]).sum())
        share = own["found"].mean() if len(own) else 1.0
        rows.append({"factor": name, "edges": len(own), "missed": missed, "share_found": share})
    return pd.DataFrame(rows)


def main() -> None:
    parser = option_parser(__doc__, "benchmark-complete-data")
    parser.add_argument("--graphs", type=int, default=FIRST, help="random graphs for the F1")
    options = parser.parse_args()

    _, paths = data(seed=0)
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

    per_graph, per_edge = zip(*(recovered(seed) for seed in range(options.graphs)))
    graphs = recovery_table(pd.DataFrame(chain.from_iterable(per_graph)))
    edges = edge_table(pd.DataFrame(chain.from_iterable(per_edge)))
    for table, name in ((graphs, "complete_recovery"), (edges, "complete_edges")):
        print(write_table(table, options.output / f"{name}.csv", digits=5).to_string(index=False))


if __name__ == "__main__":
    main()
