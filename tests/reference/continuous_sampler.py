"""The sampler's model of continuous nodes, slow and plain: draws from the prior, and dense scores.

A node is a dictionary: its decay λ, σ², noise variance, intercept, ``weights`` {parent: numbers}
(one number, or two with the quadratic term; for a parent of labels one per state but the first) and
``pushes`` {stimulus: one number per trajectory}.
"""

from __future__ import annotations

import numpy as np


def drive(x, own, parents_at, stimuli_at, d):
    """What moves a node beside its own decay, at one point."""
    total = own["intercept"]
    for parent, weights in own["weights"].items():
        value = parents_at[parent]
        if isinstance(value, (int, np.integer)):
            total += weights[value - 1] if value > 0 else 0.0
        else:
            total += sum(w * value**power for power, w in enumerate(weights, start=1))
    for stimulus, push in own["pushes"].items():
        total += push[d] * stimuli_at[stimulus]
    return total


def simulated(rng, nodes, times, labels, stimuli, start_variance):
    """x[d][name]: paths at ``times[d]``, exact steps with parents held.

    ``labels[d][name]`` and ``stimuli[d][name]`` hold states and 0 or 1 at the same times.
    """
    paths = []
    for d, own_times in enumerate(times):
        x = {name: [np.sqrt(start_variance) * rng.normal()] for name in nodes}
        for k, step in enumerate(np.diff(own_times)):
            at = {name: x[name][k] for name in nodes}
            at |= {name: int(states[k]) for name, states in labels[d].items()}
            on = {name: states[k] for name, states in stimuli[d].items()}
            for name, own in nodes.items():
                lam = own["decay"]
                a = np.exp(-lam * step)
                spread = own["variance"] * (1.0 - a * a) / (2.0 * lam)
                mean = a * x[name][k] + (1.0 - a) / lam * drive(x, own, at, on, d)
                x[name].append(mean + np.sqrt(spread) * rng.normal())
        paths.append({name: np.array(values) for name, values in x.items()})
    return paths


def log_evidence(times, path, columns, on, lam, rho, size, prior):
    """ln p(path | decay, parents) with weights, intercept, stimuli and σ² summed out, densely.

    ``path[d]``; ``columns[d]`` (steps, P) of φ(parents) and ``on[d]`` (steps, K) where steps begin.
    """
    z, mean_one, design, spread, owner, marks = [], [], [], [], [], []
    for d, own_times in enumerate(times):
        step = np.diff(own_times)
        a = np.exp(-lam * step)
        b = (1.0 - a) / lam
        z.append(path[d][1:] - a * path[d][:-1])
        mean_one.append(b)
        design.append(b[:, None] * columns[d])
        spread.append((1.0 - a * a) / (2.0 * lam))
        owner.append(np.full(len(step), d))
        marks.append(b[:, None] * on[d])
    z, one, design = np.concatenate(z), np.concatenate(mean_one), np.concatenate(design)
    owner, marks = np.concatenate(owner), np.concatenate(marks)
    shape, scale, _, _, wide = prior
    covariance = np.diag(np.concatenate(spread)) + wide * np.outer(one, one)
    covariance += size * design @ design.T
    for k, variance in enumerate(rho):
        same = owner[:, None] == owner[None, :]
        covariance += variance * same * np.outer(marks[:, k], marks[:, k])
    _, log_det = np.linalg.slogdet(covariance)
    square = z @ np.linalg.solve(covariance, z)
    return -0.5 * log_det - (shape + 0.5 * len(z)) * np.log(scale + 0.5 * square)
