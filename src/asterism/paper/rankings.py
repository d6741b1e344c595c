"""Simple ways to rank edges from time series, for comparison with the learned probabilities.

Each takes one table per series (rows are times, columns are nodes, equal steps) and returns
scores with parents as rows and children as columns; the diagonal is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def lagged_correlation(series: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """|correlation| of every node with every other one step later, all series pooled."""
    before, after, names = _steps(series)
    n = len(names)
    matrix = np.abs(np.corrcoef(before.T, after.T)[:n, n:])
    return _table(np.nan_to_num(matrix), names)


def forest(series: Sequence[pd.DataFrame], n_trees: int = 500, seed: int = 0) -> pd.DataFrame:
    """Importance of every node for a random forest that predicts each node one step later.

    In the manner of GENIE3: the target is scaled to unit variance, importances are comparable
    between targets, and each split looks at √p of the p nodes.
    """
    from sklearn.ensemble import RandomForestRegressor

    before, after, names = _steps(series)
    matrix = np.zeros((len(names), len(names)))
    for child in range(len(names)):
        target = after[:, child] / max(float(after[:, child].std()), 1e-12)
        trees = RandomForestRegressor(n_trees, max_features="sqrt", random_state=seed, n_jobs=1)
        trees.fit(before, target)
        own = np.var(target)
        matrix[:, child] = trees.feature_importances_ * own
    return _table(matrix, names)


def random_scores(truth: Any, names: Sequence[str], n: int = 1000, seed: int = 0) -> dict[str, Any]:
    """AUROC and AUPR of random rankings: mean and standard deviation of one ranking."""
    place = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)), dtype=bool)
    for parent, child in truth:
        matrix[place[parent], place[child]] = True
    is_edge = matrix[~np.eye(len(names), dtype=bool)]
    rng = np.random.default_rng(seed)
    auroc, aupr = np.empty(n), np.empty(n)
    n_true, n_false = int(is_edge.sum()), int((~is_edge).sum())
    for i in range(n):
        hit = rng.permutation(is_edge)  # best rank first
        true_so_far = np.cumsum(hit)
        auroc[i] = true_so_far[~hit].sum() / (n_true * n_false)
        aupr[i] = (true_so_far[hit] / (np.flatnonzero(hit) + 1)).mean()
    return {
        "auroc": float(auroc.mean()),
        "auroc_se": float(auroc.std(ddof=1)),
        "aupr": float(aupr.mean()),
        "aupr_se": float(aupr.std(ddof=1)),
    }


def _steps(series: Sequence[pd.DataFrame]) -> tuple[FloatArray, FloatArray, list[str]]:
    names = [str(c) for c in series[0].columns]
    before = np.concatenate([s.to_numpy(dtype=np.float64)[:-1] for s in series])
    after = np.concatenate([s.to_numpy(dtype=np.float64)[1:] for s in series])
    return before, after, names


def _table(matrix: FloatArray, names: list[str]) -> pd.DataFrame:
    clean = matrix.copy()
    np.fill_diagonal(clean, 0.0)
    return pd.DataFrame(clean, index=names, columns=names)
