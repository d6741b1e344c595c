"""What every learner shares: scikit-learn's contract for settings, without importing scikit-learn.

``__init__`` only stores its arguments under their own names; what ``fit`` finds ends in ``_``.
``get_params`` and ``set_params`` follow from the signature, which is all that
``sklearn.base.clone`` and its searches over settings ask for.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from asterism.errors import ModelError
from asterism.notebook_card import MOST_ROWS, card

Learner = TypeVar("Learner", bound="Estimator")


class Estimator:
    """Settings as named arguments, kept as attributes."""

    @classmethod
    def _setting_names(cls) -> list[str]:
        names = inspect.signature(cls.__init__).parameters
        return [name for name in names if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name; ``deep`` changes nothing, settings hold no learners."""
        return {name: getattr(self, name) for name in self._setting_names()}

    def set_params(self: Learner, **settings: Any) -> Learner:
        """Change some settings; what was learned stays until the next ``fit``."""
        known = self._setting_names()
        for name in settings:
            if name not in known:
                raise ModelError(
                    f"{type(self).__name__} has no setting {name!r}; it has {', '.join(known)}."
                )
        for name, value in settings.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's cross-validation asks of an estimator."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def _require_fitted(self, attribute: str) -> None:
        if attribute not in vars(self):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} has learned nothing yet; call fit.")

    def _repr_html_(self) -> str:
        """Settings, and of a fitted learner how it ended and its surest edges."""
        fitted = vars(self)
        if "network_" not in fitted:
            return card(repr(self), [("not fitted:", "call fit")])
        network, converged = fitted["network_"], getattr(self, "converged_", None)
        stop = str(getattr(self, "stop_reason_", ""))
        n_edges = sum(map(len, network.parents.values()))
        facts = [("nodes", f"{network.n_nodes:,}"), ("edges", f"{n_edges:,}")]
        if "log_evidence_" in fitted:
            facts.append(("log evidence", f"{float(fitted['log_evidence_']):.6g}"))
        if converged:
            facts.append(("converged:", stop) if stop else ("converged", ""))
        warning = f"Not converged. {stop}" if converged is False else ""
        edges = getattr(self, "edges_", None)
        if edges is None or not len(edges):
            return card(repr(self), facts, warning=warning)
        names = [n for n in ("parent", "child", "probability", "effect") if n in edges.columns]
        top = edges[names].head(MOST_ROWS)
        rows = [
            [f"{v:.3f}" if isinstance(v, float) else v for v in row]
            for row in top.itertuples(index=False)
        ]
        return card(repr(self), facts, names, rows, len(edges), warning)

    def __repr__(self) -> str:
        """Only the settings that differ from their defaults."""
        parameters = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name in self._setting_names()
            if not _same(getattr(self, name), parameters[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    return type(value) is type(default) and repr(value) == repr(default)
