"""What every learner shares: scikit-learn's contract for settings, without importing scikit-learn.

``__init__`` only stores its arguments under their own names; what ``fit`` finds ends in ``_``.
``get_params`` and ``set_params`` follow from the signature, which is all that
``sklearn.base.clone`` and its searches over settings ask for.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from asterism.errors import ModelError

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
