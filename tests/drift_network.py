"""Networks of continuous and jumping nodes whose parents follow from drifts and rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asterism as am


@dataclass(frozen=True)
class JumpRates:
    rates: Any
    slopes: Mapping[str, Any] = field(default_factory=dict)
    parents: Sequence[str] = ()
    initial: Any = None


def drift_network(
    drifts: Mapping[str, am.Drift], jumps: Mapping[str, JumpRates] | None = None
) -> am.Network:
    jumps = jumps or {}
    parents = {name: list(drift.parents) for name, drift in drifts.items()}
    return am.Network(
        parents | {name: [*jump.parents, *jump.slopes] for name, jump in jumps.items()},
        {name: jump.rates for name, jump in jumps.items()},
        initial={name: jump.initial for name, jump in jumps.items()},
        drifts=drifts,
        slopes={name: jump.slopes for name, jump in jumps.items() if jump.slopes},
    )
