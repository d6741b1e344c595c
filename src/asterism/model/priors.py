"""The prior of the rates: independent Gamma distributions, one per transition and configuration.

``shape`` α counts imagined transitions, ``rate`` β the time they took. "auto" asks the learner for
a β that suits the data's unit of time: minutes and hours must give the same graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from asterism.errors import ModelError


@dataclass(frozen=True)
class GammaPrior:
    """Gamma(shape α, rate β) for every rate; β is a number or "auto"."""

    shape: float = 5.0
    rate: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _positive("shape", self.shape))
        if self.rate != "auto":
            object.__setattr__(self, "rate", _positive("rate", self.rate, ' or "auto"'))

    @property
    def is_auto(self) -> bool:
        """Whether β still has to be found from the data."""
        return self.rate == "auto"

    @property
    def rate_value(self) -> float:
        """β as a number; an error while it is "auto"."""
        if isinstance(self.rate, str):
            raise ModelError('The prior\'s rate is "auto": resolve it from data first.')
        return self.rate

    def resolved(self, rate: float) -> GammaPrior:
        """The prior with ``rate`` in place of "auto"; unchanged if it already has a number."""
        return GammaPrior(self.shape, rate) if self.is_auto else self

    def to_dict(self) -> dict[str, Any]:
        return {"shape": self.shape, "rate": self.rate}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> GammaPrior:
        return cls(shape=content["shape"], rate=content["rate"])


def _positive(name: str, value: Any, alternative: str = "") -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0.0):
        raise ModelError(
            f"The prior's {name} must be a positive number{alternative}, got {value!r}."
        )
    return number
