"""The page of the app, served to the user of this machine and to nobody else.

Only the loopback address is listened to. A request must name that address as its host (a page of
another site cannot, whatever name it gives this address), must not come from another origin, and
must carry the cookie that the token in the address is exchanged for. Tables are written to disk as
they come and are read by processes of their own; no text of theirs becomes code, and report pages
are sandboxed: they cannot speak to the app.
"""

from __future__ import annotations

import asyncio
import hmac
import io
import json
import logging
import secrets
import shutil
import tempfile
import zipfile
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler, stream_request_body

from asterism.app.runs import LARGEST_TABLE, Refusal, Run, Runs
from asterism.errors import AsterismError

ADDRESS = "127.0.0.1"
#: bytes of a request that is no table
LARGEST_REQUEST = 2**20
#: bytes that are read of a table that is too large, so that its sender can be told
READ_ANYWAY = 2**40

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; connect-src 'self'; img-src 'self' data:; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: a report has its own scripts; they may do nothing but show it
_SANDBOX = "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; script-src "
_SANDBOX += "'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"


class Guarded(RequestHandler):
    """Answers only who came by the right address with the right cookie."""

    def initialize(self, runs: Runs, token: str, port: int) -> None:
        """What all handlers share."""
        self.runs, self.token, self.port = runs, token, port
        self.cookie = f"asterism-{port}"  # cookies are shared by all ports

    def set_default_headers(self) -> None:
        """Nothing is framed, kept, guessed at, or sent elsewhere."""
        self.clear_header("Server")
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> Awaitable[None] | None:
        """Refuse everybody else before anything is read."""
        hosts = [f"{name}:{self.port}" for name in (ADDRESS, "localhost")]
        host = self.request.headers.get("Host", "").lower()
        origin = self.request.headers.get("Origin")
        is_ours = host in hosts and (origin is None or origin.lower() == f"http://{host}")
        if self.request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            is_ours = False
        if not is_ours:
            self.refuse("This page answers only to the machine it runs on.", 403)
            return None
        given = self.get_query_argument("token", None)
        if given is not None and hmac.compare_digest(given.encode(), self.token.encode()):
            self.set_cookie(self.cookie, self.token, httponly=True, samesite="Strict", path="/")
            self.redirect("/")
        elif not hmac.compare_digest(
            (self.get_cookie(self.cookie) or "").encode(), self.token.encode()
        ):
            self.refuse("Open the address that asterism app has printed: it holds a token.", 403)
        return None

    def refuse(self, sentence: str, status: int) -> None:
        """End with one sentence."""
        self.set_status(status)
        self.finish({"error": sentence})

    def write_error(self, status_code: int, **details: Any) -> None:
        """Errors are sentences; an error of ours is in the log."""
        error = details.get("exc_info", (None, None))[1]
        if isinstance(error, AsterismError):
            self.refuse(error.sentence, getattr(error, "status", 400))
        elif isinstance(error, OSError):
            self.refuse(f"The disk refused: {error.strerror}. Nothing that was there is lost.", 507)
        else:
            self.refuse(f"This could not be done ({status_code}).", status_code)

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        """What is told to the user is no news for the log."""
        if not isinstance(error, AsterismError | OSError):
            super().log_exception(kind, error, trace)

    def settings_given(self) -> Any:
        """The body, which is JSON."""
        try:
            given = json.loads(self.request.body or b"{}")
        except ValueError:
            raise Refusal("The request is not JSON.") from None
        return given


class Page(Guarded):
    """The page itself and its files."""

    async def get(self, name: str) -> None:
        """``index.html`` unless another of the few files is asked for."""
        if name == "report.css":
            folder = resources.files("asterism.report") / "templates"
        else:
            folder = resources.files("asterism.app") / "static"
        kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
        name = name or "index.html"
        self.set_header("Content-Type", f"{kinds[name.split('.')[-1]]}; charset=utf-8")
        self.finish((folder / name).read_text(encoding="utf-8"))


@stream_request_body
class Upload(Guarded):
    """A table, as the body of the request; written as it comes."""

    file: IO[bytes] | None = None
    run: Run | None = None
    problem: OSError | None = None

    def prepare(self) -> None:
        """Refuse what is too large, or no table, before it comes."""
        self.request.connection.set_max_body_size(READ_ANYWAY)  # type: ignore[union-attr]
        super().prepare()
        if self._finished:
            return
        self.size = 0
        if int(self.request.headers.get("Content-Length", 0)) > LARGEST_TABLE:
            raise self.too_large()
        self.run = self.runs.new(unquote(self.request.headers.get("X-Filename", "")))
        try:
            self.file = (self.run.folder / self.run.table).open("wb")
        except OSError:
            self.forget()
            raise

    def too_large(self) -> Refusal:
        """What is said."""
        most = LARGEST_TABLE // 2**20
        return Refusal(f"The table is larger than {most} MB: use asterism learn instead.", 413)

    def data_received(self, chunk: bytes) -> None:
        """One more piece; a disk that is full is said once all of it has come."""
        self.size += len(chunk)
        if self.file is None or self.problem is not None:
            return
        try:
            if self.size > LARGEST_TABLE:
                raise OSError(27, "the table is larger than it said")
            self.file.write(chunk)
        except OSError as error:
            self.problem = error

    def post(self) -> None:
        """All of it has come."""
        assert self.run is not None
        assert self.file is not None
        try:
            self.file.close()
            if self.problem is not None:
                raise self.problem
        except OSError as error:
            self.forget()
            raise Refusal(
                f"The table could not be kept: {error.strerror}. Nothing that was there is lost.",
                507,
            ) from None
        if self.size == 0:
            self.forget()
            raise Refusal("The file is empty.")
        run, self.run = self.run, None
        self.runs.add(run)
        self.finish({"name": run.name})

    def on_connection_close(self) -> None:
        """A table that came only in part is none."""
        self.forget()

    def forget(self) -> None:
        """Remove what there is of it."""
        if self.run is not None:
            shutil.rmtree(self.run.folder, ignore_errors=True)
            self.run = None


class List(Guarded):
    """All runs."""

    def get(self) -> None:
        """Oldest first."""
        self.finish({"runs": [run.as_json() for run in self.runs], "folder": str(self.runs.folder)})


class Action(Guarded):
    """What can be done with one run."""

    async def post(self, name: str, what: str) -> None:
        """Check, start or stop it."""
        run, given = self.runs.get(name), self.settings_given()
        if not isinstance(given, dict):
            raise Refusal("Settings are names with values.")
        if what == "check":
            self.finish(await self.runs.check(run, given))
        elif what == "start":
            started = await self.runs.start(run, given)
            self.finish(started.as_json())
        else:
            self.runs.stop(run)
            self.finish(run.as_json())


class Results(Guarded):
    """The report of a run, or all its files."""

    async def get(self, name: str, what: str) -> None:
        """The page, sandboxed; or the folder, packed."""
        run = self.runs.get(name)
        if not run.has_results:
            raise Refusal(f"{run.title!r} has no results yet.", 404)
        if what == "report":
            self.show(run.results / "report.html")
            return
        file = await asyncio.to_thread(_packed, run)
        self.set_header("Content-Type", "application/zip")
        self.set_header("Content-Disposition", f'attachment; filename="{run.name}.zip"')
        with file:
            while chunk := file.read(2**20):
                self.write(chunk)
                await self.flush()

    def show(self, page: Path) -> None:
        """A page that asterism wrote."""
        self.set_header("Content-Security-Policy", _SANDBOX)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(page.read_bytes())


class Compare(Results):
    """Two runs side by side."""

    async def post(self) -> None:
        """Compare, and say where the page is."""
        names = self.settings_given()
        if not isinstance(names, list) or len(set(map(str, names))) != 2:
            raise Refusal("Choose two runs to compare.")
        first, second = (self.runs.get(str(name)) for name in names)
        self.finish({"page": f"/compared/{await self.runs.compare(first, second)}"})

    async def get(self, name: str, what: str = "") -> None:
        """The page."""
        page = self.runs.folder / ".compared" / name / "compare.html"
        if not page.is_file():
            raise Refusal("These runs were not compared yet.", 404)
        self.show(page)


def _packed(run: Run) -> IO[bytes]:
    """All files of the results, and the table."""
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by who reads it)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(run.folder / run.table, f"{run.name}/{run.table}")
        for path in sorted(run.results.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                archive.write(path, f"{run.name}/{path.relative_to(run.results).as_posix()}")
    file.seek(0, io.SEEK_SET)
    return file


def make_app(runs: Runs, token: str, port: int) -> Application:
    """All addresses of the app."""
    shared = {"runs": runs, "token": token, "port": port}
    name = r"([A-Za-z0-9-]+)"
    routes: list[tuple[str, type[RequestHandler]]] = [
        (r"/(|app\.js|app\.css|report\.css)", Page),
        (r"/tables", Upload),
        (r"/runs", List),
        (rf"/runs/{name}/(check|start|stop)", Action),
        (rf"/runs/{name}/(report|zip)", Results),
        (r"/compare", Compare),
        (rf"/compared/{name}", Compare),
        (r"/.*", Nothing),
    ]
    return Application([(path, handler, shared) for path, handler in routes], log_function=_quiet)


class Nothing(Guarded):
    """Any other address."""

    def get(self) -> None:
        """There is none."""
        raise Refusal("There is no such page.", 404)


def _quiet(handler: RequestHandler) -> None:
    """Requests are not news, and addresses may hold the token."""


async def serve(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve until cancelled; ``ready`` is told the address with its token."""
    runs, token = Runs(folder), secrets.token_urlsafe(32)
    sockets = bind_sockets(port, ADDRESS)
    port = sockets[0].getsockname()[1]
    logging.getLogger("tornado.access").setLevel(logging.ERROR)
    logging.getLogger("tornado.general").setLevel(logging.ERROR)
    server = HTTPServer(make_app(runs, token, port), max_body_size=LARGEST_REQUEST)
    server.add_sockets(sockets)
    ready(f"http://{ADDRESS}:{port}/?token={token}")
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()
        await runs.close()
