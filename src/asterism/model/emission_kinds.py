"""The kinds of emissions: one line each. To add one, write its file and add its line here.

Kind (as in files and behind ``--emission``): the module that holds it, and the name of its class,
which is also its public name (``am.Gaussian``). Nothing is loaded here.
"""

from __future__ import annotations

EMISSION_KINDS = {
    "gaussian": ("asterism.model.emission_numeric", "Gaussian"),
    "t": ("asterism.model.emission_numeric", "StudentT"),
    "poisson": ("asterism.model.emission_numeric", "Poisson"),
    "categorical": ("asterism.model.emission_discrete", "Categorical"),
    "exact": ("asterism.model.emission_discrete", "Exact"),
    "likelihood": ("asterism.model.emission_discrete", "Likelihood"),
    "threshold": ("asterism.model.emission_threshold", "Threshold"),
    "continuous": ("asterism.model.emission_continuous", "Continuous"),
    "silent": ("asterism.model.emission_silent", "SilentStates"),
}


def kinds_for_flags() -> list[str]:
    """The kinds that a flag can name; silent states wrap another emission."""
    return [kind for kind in EMISSION_KINDS if kind != "silent"]
