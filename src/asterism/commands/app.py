"""``asterism app``: a page in the browser of this machine, for those who prefer clicking."""

from __future__ import annotations

import asyncio
import webbrowser

from asterism.commands.console import Console, Done, print_json
from asterism.commands.exits import Refused
from asterism.commands.options import AppOptions


def run(options: AppOptions, console: Console) -> Done:
    """Serve the page until Ctrl-C; a run that is under way then ends with the best so far."""
    try:
        from asterism.app.server import serve
    except ImportError:
        raise Refused("asterism app needs tornado: pip install 'asterism[app]'.") from None

    def ready(address: str) -> None:
        if options.as_json:
            print_json({"command": "app", "address": address, "folder": str(options.folder)})
        else:
            print(address, flush=True)
        console.say(f"Runs are kept in {options.folder}. Ctrl-C ends the app.")
        if options.browser:
            webbrowser.open(address)

    try:
        asyncio.run(serve(options.folder, options.port, ready))
    except KeyboardInterrupt:
        console.say("Ended.")
    except OSError as error:
        if error.filename is not None:
            raise
        raise Refused(f"Port {options.port} cannot be used: {error.strerror}.") from None
    return Done()
