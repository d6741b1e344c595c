"""Rates and initial distribution as a method uses them."""

from __future__ import annotations

from typing import NamedTuple

from asterism.inference import mean_field, star
from asterism.inference.evidence import FloatArray
from asterism.model.compiled import CompiledNetwork


class Parameters(NamedTuple):
    """Rates and initial distribution, and the table that the method averages."""

    rates: FloatArray
    table: FloatArray
    initial: FloatArray
    geometric: bool

    @classmethod
    def of(cls, network: CompiledNetwork, method: str) -> Parameters:
        geometric = method == "mean_field"
        table = (mean_field if geometric else star).averaged_table(network)
        return cls(network.rates, table, network.initial, geometric)
