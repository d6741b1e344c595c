"""The errors a user can meet. Each message says what, where, and what would be right."""

from __future__ import annotations


class AsterismError(ValueError):
    """Base of every error that is the input's fault rather than the program's."""


class DataError(AsterismError):
    """The measurements are malformed, contradictory or impossible under the model."""


class ModelError(AsterismError):
    """The network, its rates or an emission is malformed or does not fit the data."""


class TooLargeError(AsterismError):
    """The request would need more states, memory or time than a stated limit."""
