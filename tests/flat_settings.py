"""Settings of ``am.StructureLearner`` by their names of version 0.2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from asterism.learning.learner_settings import KINDS, MOVED, as_object, changed_fields


def regrouped(**flat: Any) -> dict[str, Any]:
    """The arguments of StructureLearner for settings by their names of version 0.2."""
    made: dict[str, Any] = {}
    if flat.get("family_prior") == "uniform":
        del flat["family_prior"]
    for name, value in flat.items():
        argument, field = MOVED.get(name, (name, ""))
        if not field:
            if name == "max_seconds" and value is not None:
                value = value / 60.0
            kept = made.get(argument)
            made[argument] = (
                replace(as_object(argument, value), **changed_fields(kept)) if kept else value
            )
            continue
        before = as_object(argument, made.get(argument, KINDS[argument]()))
        made[argument] = replace(before, **{field: value})
    return made
