"""The app over HTTP: who gets in, what is refused, and that nothing is lost."""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tornado")

from asterism.app.runs import LARGEST_TABLE, Refusal, Runs, flags_of
from tests.app_server import HEADER, LONG, QUICK, AppServer, app_server, small_table, wide_table
from tests.command_line import obey_ctrl_c


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    with app_server(tmp_path_factory.mktemp("runs"), preexec_fn=obey_ctrl_c) as server:
        yield server


PATHS = ["/", "/runs", "/app.js", "/report.css", "/runs/x/report", "/runs/x/zip", "/nowhere"]


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nobody_gets_anything(app: AppServer, path: str) -> None:
    for cookie in ("", "asterism=1", f"asterism-{app.port}=wrong", f"asterism-{app.port}="):
        status, content, answer = app.ask(path, cookie=False, Cookie=cookie)
        assert status == 403
        assert set(content) == {"error"}
        assert answer.headers["Set-Cookie"] is None
    assert app.ask(f"{path}?token=wrong", cookie=False)[0] == 403
    assert app.ask(f"{path}?token=", cookie=False)[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.org"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://example.org"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_hosts_and_origins_get_nothing(app: AppServer, headers: dict[str, str]) -> None:
    before = app.ask("/runs")[1]["runs"]
    for path, body in (("/", None), ("/runs", None), ("/tables", b"a"), ("/compare", ["a", "b"])):
        status, content, _ = app.ask(path, body, **{"X_Filename": "a.csv", **headers})
        assert status == 403
        assert set(content) == {"error"}
    status, _, answer = app.ask(f"/?token={app.token}", cookie=False, **headers)
    assert status == 403
    assert answer.headers["Set-Cookie"] is None
    assert app.ask("/runs")[1]["runs"] == before


def test_the_token_is_exchanged_for_a_cookie(app: AppServer) -> None:
    status, _, answer = app.ask(f"/?token={app.token}", cookie=False)
    assert status == 302
    assert answer.headers["Location"] == "/"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    status, _, answer = app.ask("/")
    assert status == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_only_the_loopback_address_listens(app: AppServer) -> None:
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in table]
    ours = [r[1] for r in rows if r[3] == "0A" and r[1].endswith(f":{app.port:04X}")]
    assert ours == [f"0100007F:{app.port:04X}"]
    six = Path("/proc/net/tcp6")
    if six.exists():
        assert f":{app.port:04X} 0000" not in six.read_text()


def test_names_of_files_cannot_lead_elsewhere(app: AppServer) -> None:
    for name in ("../../evil.csv", "..%2F..%2Fevil.csv", "C:\\x\\evil.csv", "-o.csv", "é<b>.csv"):
        got = app.upload(small_table(2), name)
        assert (app.folder / got / "table.csv").is_file()
        assert (app.folder / got).resolve().parent == app.folder.resolve()
    for name in ("evil.py", "", "table", ".csv.html"):
        status, content, _ = app.ask("/tables", b"x", X_Filename=name)
        assert status == 415
        assert "ends in" in content["error"]
    for path in ("/runs/../etc/report", "/runs/..%2F..%2Fetc/report", "/compared/..%2Fx"):
        assert app.ask(path)[0] == 404


def test_too_large_and_empty_tables_are_refused_in_one_sentence(app: AppServer) -> None:
    before = sorted(app.folder.iterdir())
    assert " 413 " in send(app, "/tables", LARGEST_TABLE + 1)
    assert "larger than" in send(app, "/tables", LARGEST_TABLE + 1)
    assert app.ask("/tables", b"", method="POST", X_Filename="a.csv")[0] == 400
    send(app, "/tables", 1_000, b"A,B", wait=False)  # a table that comes only in part
    time.sleep(0.5)
    assert sorted(app.folder.iterdir()) == before
    # nothing but a table may be large: it is not even read
    assert " 200 " not in send(app, "/compare", 2**21)


def send(app: AppServer, path: str, length: int, body: bytes = b"", wait: bool = True) -> str:
    """The first words of the answer to a request that promises more than it sends."""
    with socket.create_connection(("127.0.0.1", app.port), timeout=20) as raw:
        raw.sendall(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{app.port}\r\nX-Filename: a.csv\r\n"
            f"Cookie: asterism-{app.port}={app.token}\r\n"
            f"Content-Length: {length}\r\n\r\n".encode()
            + body
        )
        return raw.recv(10_000).decode() if wait else ""


def test_settings_are_flags_and_cannot_be_others(app: AppServer) -> None:
    assert flags_of({"time": "--force", "minutes": 2}, ("time",)) == ["--time=--force"]
    assert flags_of({"sort": "yes"}, ("sort",)) == ["--sort"]
    for bad in ({"output": "/tmp"}, {"time": {"a": 1}}, {"config": "x"}):
        with pytest.raises(Refusal):
            flags_of(bad, ("time",))
    name = app.upload(small_table(2))
    assert app.ask(f"/runs/{name}/start", {"threshold": "x"})[0] == 400
    assert app.ask(f"/runs/{name}/start", b"no json")[0] == 400


def test_every_problem_of_a_table_is_named(app: AppServer) -> None:
    name = app.upload(HEADER + "1,0,0.1,0.2\n1,1,oops,0.3\n1,2,0.3,0.1\n1,3,0.2,0.9\n")
    status, found, _ = app.ask(f"/runs/{name}/check", {"states": "continuous"})
    assert status == 200
    assert not found["ok"]
    assert any(problem["row"] == 3 and problem["column"] == "A" for problem in found["problems"])
    name = app.upload("x,y\n1,2\n")
    found = app.ask(f"/runs/{name}/check", {})[1]
    assert not found["ok"]
    assert found["header"] == ["x", "y"]
    assert "No column looks like the time" in found["problems"][0]["message"]


def test_a_run_from_start_to_end(app: AppServer) -> None:
    """Also: a second upload and check while it runs, a second start, two who watch."""
    name = app.upload(small_table())
    found = app.ask(f"/runs/{name}/check", {"states": "continuous"})[1]
    assert found["ok"], found
    assert [course["node"] for course in found["courses"]] == ["A", "B"]
    assert app.ask(f"/runs/{name}/start", QUICK)[0] == 200
    other = app.upload(small_table(6), "others.csv")
    status, content, _ = app.ask(f"/runs/{other}/start", QUICK)
    assert status == 409
    assert "still running" in content["error"]
    run = app.ended(name)
    assert run["state"] == "finished", run
    assert {(parent, child) for parent, child, _ in run["ranking"]} == {("A", "B"), ("B", "A")}
    status, page, answer = app.ask(f"/runs/{name}/report")
    assert status == 200
    assert b"Asterism" in page
    assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    archive = zipfile.ZipFile(io.BytesIO(app.ask(f"/runs/{name}/zip")[1]))
    held = {path.split("/", 1)[1] for path in archive.namelist()}
    assert {"table.csv", "edges.csv", "report.html", "run.json"} <= held
    assert app.ask(f"/runs/{other}/report")[0] == 404
    # a run that is there stays: the same table again is another run
    again = app.ask(f"/runs/{name}/start", {**QUICK, "seed": 2})[1]["name"]
    assert again != name
    assert app.ended(again)["state"] == "finished"
    status, content, _ = app.ask("/compare", [name, again])
    assert status == 200, content
    assert app.ask(content["page"])[0] == 200
    assert app.ask("/compare", [name, name])[0] == 400
    assert app.ask("/compare", [name, other])[0] == 400


def test_stopping_keeps_the_best_so_far_and_a_new_app_lists_it(tmp_path: Path) -> None:
    with app_server(tmp_path, preexec_fn=obey_ctrl_c) as app:
        name = app.upload(wide_table())
        app.ask(f"/runs/{name}/start", LONG)
        app.wait(name, lambda run: bool(run["ranking"]))
        assert app.ask(f"/runs/{name}/stop", {})[0] == 200
        run = app.ended(name)
        assert run["state"] == "stopped", run
        assert run["has_results"]
        told = json.loads((tmp_path / name / "results" / "run.json").read_text())
        assert not told["converged"]
        # Ctrl-C of the app itself is the same
        second = app.ask(f"/runs/{name}/start", LONG)[1]["name"]
        app.wait(second, lambda run: bool(run["ranking"]))
    with app_server(tmp_path, preexec_fn=obey_ctrl_c) as app:
        assert [app.run(one)["state"] for one in (name, second)] == ["stopped", "stopped"]
        assert app.run(second)["has_results"]


@pytest.mark.slow
def test_two_tabs_start_and_stop_one_run(app: AppServer) -> None:
    """Two clicks at the same time start once; who leaves at once misses nothing; both may stop."""
    first, second = (app.upload(wide_table(), f"tab{i}.csv") for i in (1, 2))
    with ThreadPoolExecutor(2) as tabs:
        asked = [f"/runs/{name}/start" for name in (first, second)]
        answers = list(tabs.map(lambda path: app.ask(path, LONG), asked))
    assert sorted(status for status, _, _ in answers) == [200, 409]
    running = first if answers[0][0] == 200 else second
    assert app.run(running)["state"] == "running"
    other = second if running == first else first
    status, content, _ = app.ask(f"/runs/{running}/start", LONG)
    assert status == 409
    assert "still running" in content["error"]
    app.upload(small_table(), "while another runs.csv")
    assert app.run(running)["state"] == "running"
    app.wait(running, lambda run: bool(run["ranking"]))
    with ThreadPoolExecutor(2) as tabs:
        list(tabs.map(lambda _: app.ask(f"/runs/{running}/stop", {}), range(2)))
    run = app.ended(running)
    assert run["state"] == "stopped", run
    assert "Stopped" in run["message"]
    # a page that is closed before it is answered has started its run all the same
    body = json.dumps(QUICK).encode()
    send(app, f"/runs/{other}/start", len(body), body, wait=False)
    app.wait(other, lambda run: run["state"] != "new")
    assert app.ended(other)["state"] == "finished"


def test_sampling_is_stopped_with_a_report_or_a_sentence(tmp_path: Path) -> None:
    with app_server(tmp_path, preexec_fn=obey_ctrl_c) as app:
        name = app.upload(small_table())
        app.ask(f"/runs/{name}/start", {"states": "2", "method": "sample", "seed": "1"})
        app.wait(name, lambda run: bool(run["ranking"]) or "ampling" in json.dumps(run["stage"]))
        app.ask(f"/runs/{name}/stop", {})
        run = app.ended(name)
        assert run["state"] in ("stopped", "finished"), run
        assert run["message"] or run["state"] == "finished"
        assert app.ask(f"/runs/{name}/report")[0] == (200 if run["has_results"] else 404)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that is soon full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own needs the right to mount one")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_fills_up_keeps_what_was_there(small_disk: Path) -> None:
    with app_server(small_disk, preexec_fn=obey_ctrl_c) as app:
        kept = app.upload(small_table())
        app.ask(f"/runs/{kept}/start", QUICK)
        assert app.ended(kept)["state"] == "finished"
        before = app.ask(f"/runs/{kept}/report")[1]
        later = app.upload(small_table(6), "later.csv")
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1024))
        status, content, _ = app.ask("/tables", b"x" * 300_000, X_Filename="large.csv")
        assert status == 507
        assert "No space left" in content["error"]
        app.ask(f"/runs/{later}/start", QUICK)
        run = app.ended(later)
        assert run["state"] == "failed"
        assert re.search("space|disk is full", run["message"].lower())
        assert app.ask(f"/runs/{kept}/report")[1] == before
        filler.unlink()
        assert app.ask(f"/runs/{later}/start", QUICK)[0] == 200
        assert app.ended(later)["state"] == "finished"


def full_disk(limit: int) -> Any:
    def prepare() -> None:
        obey_ctrl_c()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return prepare


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(tmp_path: Path) -> None:
    with app_server(tmp_path, preexec_fn=full_disk(20_000)) as app:
        kept = app.upload(small_table(4))
        status, content, _ = app.ask("/tables", b"x" * 3_000_000, X_Filename="large.csv")
        assert status == 507
        assert "could not be kept" in content["error"]
        app.ask(f"/runs/{kept}/start", QUICK)
        run = app.ended(kept)
        assert run["state"] == "failed"
        assert run["message"]
        assert "Traceback" not in json.dumps(run)
    assert (tmp_path / kept / "table.csv").read_text() == small_table(4)
    assert [path.name for path in tmp_path.iterdir()] == [kept]
    assert [run.state for run in Runs(tmp_path)] == ["failed"]


def test_a_port_in_use_is_refused(app: AppServer, tmp_path: Path) -> None:
    ended = subprocess.run(
        [*app.process.args[:4], "--port", str(app.port), "--no-browser", "--folder", str(tmp_path)],  # type: ignore[index]
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert f"Port {app.port}" in ended.stderr
