"""``asterism warm-up``: compile now what the first commands would compile."""

from __future__ import annotations

import time

from asterism.commands import exits
from asterism.commands.console import Console
from asterism.commands.options import WarmUpOptions
from asterism.commands.outputs import print_json
from asterism.learning.compile_ahead import warm_up


def run(options: WarmUpOptions) -> int:
    """Run every kind of work once on toy problems, and say where the machine code is kept."""
    console = Console(options.quiet)
    begin = time.perf_counter()
    folder = warm_up(lambda text: console.say(f"Compiling for {text} ..."))
    seconds = time.perf_counter() - begin
    console.say(f"Ready after {seconds:.0f} s. Machine code: {folder}")
    if options.as_json:
        print_json({"command": "warm-up", "seconds": seconds, "folder": str(folder)})
    return exits.OK
