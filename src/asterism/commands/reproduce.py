"""``asterism reproduce``: hands a figure or table of the paper to the module that makes it."""

from __future__ import annotations

import importlib
import pkgutil

from asterism.commands.console import Console, Done
from asterism.commands.exits import Refused
from asterism.commands.options import ReproduceOptions
from asterism.commands.outputs import writing_to

#: finished cases of a reproduction; a folder that holds them may be gone on with
SAVED_ROWS = "rows.jsonl"


def available() -> list[str]:
    """The figures and tables that can be made: modules of ``asterism.paper`` with a ``run``."""
    import asterism.paper

    names = sorted(
        module.name
        for module in pkgutil.iter_modules(asterism.paper.__path__)
        if not module.name.startswith("_")
    )
    return [
        name for name in names if hasattr(importlib.import_module(f"asterism.paper.{name}"), "run")
    ]


def run(options: ReproduceOptions, console: Console) -> Done:
    """Run ``asterism.paper.<name>.run``; finished cases in the folder are not computed again."""
    known = available()
    if options.name not in known:
        raise Refused(
            f"{options.name!r} cannot be reproduced; there "
            f"{'are ' + ', '.join(known) if known else 'is nothing yet'}."
        )
    # an earlier run goes on
    goes_on = options.force or (options.output / SAVED_ROWS).is_file()
    module = importlib.import_module(f"asterism.paper.{options.name}")
    with writing_to(options.output, goes_on), console.progress() as progress:
        page = module.run(options.output, options.quick, options.data, progress=progress)
        console.say(f"Results: {options.output}; open {page}")
    files = sorted(str(path) for path in options.output.rglob("*") if path.is_file())
    return Done(
        {"name": options.name, "output": str(options.output), "page": str(page), "files": files}
    )
