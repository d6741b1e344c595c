"""Rates and initial distribution as a method uses them."""

from __future__ import annotations

from typing import NamedTuple

from asterism.inference.evidence import FloatArray
from asterism.inference.mean_field import mean_field_table
from asterism.inference.star import star_table
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
        table = (mean_field_table if geometric else star_table)(network)
        return cls(network.rates, table, network.initial, geometric)
