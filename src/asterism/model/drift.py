"""How a node moves that has no states: an Ornstein–Uhlenbeck process that follows its parents.

dx = [baseline − decay · x + Σ linear · x_parent + Σ quadratic · x_parent² + shift of the states
      of jumping parents] dt + diffusion dW,    a measurement is x + noise
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from asterism.errors import ModelError


@dataclass(frozen=True)
class Drift:
    """How a continuous node moves, in the user's units of value and time."""

    decay: float
    """Per unit of time: a deviation falls to a third (1/e) within 1 / decay."""
    diffusion: float
    """Of dW: in units of value by the square root of time."""
    baseline: float = 0.0
    linear: Mapping[str, float] = field(default_factory=dict)
    """Continuous parent -> weight."""
    quadratic: Mapping[str, float] = field(default_factory=dict)
    """Continuous parent -> weight of its square."""
    shifts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Jumping parent -> what each of its states adds."""
    start_mean: float = 0.0
    start_sd: float = 1.0
    noise_sd: float = 0.0
    """Of a measurement."""

    def __post_init__(self) -> None:
        if not (self.decay > 0.0 and self.diffusion > 0.0):
            raise ModelError("Decay and diffusion of a drift must be positive.")
        numbers = [self.decay, self.diffusion, self.baseline, self.start_mean, self.start_sd]
        numbers += [self.noise_sd, *self.linear.values(), *self.quadratic.values()]
        numbers += [value for states in self.shifts.values() for value in states]
        if not all(math.isfinite(value) for value in numbers):
            raise ModelError("A drift holds a number that is not finite.")
        if self.start_sd < 0.0 or self.noise_sd < 0.0:
            raise ModelError("Standard deviations of a drift must not be negative.")

    @property
    def parents(self) -> tuple[str, ...]:
        """Every node that a weight or shift names."""
        return tuple(dict.fromkeys((*self.linear, *self.quadratic, *self.shifts)))

    def slope(self, parent: str, at: float) -> float:
        """How far the resting level rises per unit of a continuous parent, near one value of it."""
        weight = self.linear.get(parent, 0.0) + 2.0 * self.quadratic.get(parent, 0.0) * at
        return weight / self.decay

    def to_dict(self) -> dict[str, Any]:
        """For a network file."""
        return {
            name: {k: list(v) if name == "shifts" else float(v) for k, v in value.items()}
            if isinstance(value, dict)
            else float(value)
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Drift:
        """The inverse of ``to_dict``."""
        found: dict[str, Any] = {}
        for name, value in content.items():
            found[name] = value
            if isinstance(value, Mapping):
                found[name] = {
                    str(k): tuple(v) if name == "shifts" else float(v) for k, v in value.items()
                }
        return cls(**found)
