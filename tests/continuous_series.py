"""Measurements of continuous nodes, from a wide table."""

from __future__ import annotations

import pandas as pd

import asterism as am
from asterism.continuous.series import Series, series_from_observations


def series_from_frame(frame: pd.DataFrame) -> Series:
    """trajectory, time and one column per node; columns of numbers are continuous."""
    return series_from_observations(am.Observations.from_frame(frame))
