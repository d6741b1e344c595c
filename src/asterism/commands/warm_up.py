"""``asterism warm-up``: compile now what the first commands would compile."""

from __future__ import annotations

import time

from asterism.commands.console import Console, Done
from asterism.commands.options import WarmUpOptions
from asterism.learning.compile_ahead import warm_up


def run(options: WarmUpOptions, console: Console) -> Done:
    """Run every kind of work once on toy problems, and say where the machine code is kept."""
    begin = time.perf_counter()
    folder = warm_up(lambda text: console.say(f"Compiling for {text} ..."))
    seconds = time.perf_counter() - begin
    console.say(f"Ready after {seconds:.0f} s. Machine code: {folder}")
    return Done({"seconds": seconds, "folder": str(folder)})
