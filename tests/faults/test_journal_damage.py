"""A damaged journal never changes a result: what is not whole is dropped, counted and said."""

from __future__ import annotations

import random
import shutil
import sqlite3
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import asterism as am
from asterism.errors import AsterismError, DataError
from asterism.learning.search import journal as journal_module
from asterism.learning.search.journal import Journal, JournalWarning
from tests.faults import harness
from tests.faults.test_journal import data, learner


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, am.Observations, str]:
    """A journal of a finished search, its data, and the edges found."""
    path = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    obs = data()
    found = learner(search="exhaustive", journal=path).fit(obs)
    return path, obs, found.edges_.to_csv()


def resumed(path: Path, obs: am.Observations) -> tuple[str, list[str]]:
    """The edges of a resumed search, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        edges = learner(search="exhaustive", journal=path, resume=True).fit(obs).edges_.to_csv()
    return edges, [str(w.message) for w in caught if issubclass(w.category, JournalWarning)]


@pytest.mark.parametrize(
    "flips", [10, pytest.param(20 if harness.REDUCED else 200, marks=pytest.mark.slow)]
)
def test_flipped_bits_never_change_the_edges(flips: int, searched, tmp_path: Path) -> None:
    """Half of the flips are inside scores."""
    path, obs, edges = searched
    rng = random.Random(1)
    content = path.read_bytes()
    with sqlite3.connect(path) as connection:
        payloads = [row[0] for row in connection.execute("SELECT payload FROM scores")]
    outcomes: Counter[str] = Counter()
    for k in range(flips):
        place = rng.randrange(len(content))
        if k % 2:  # inside a score
            place = content.index(rng.choice(payloads)) + rng.randrange(8)
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.randrange(8)
        copy = tmp_path / "journal.sqlite"
        copy.write_bytes(bytes(damaged))
        try:
            found, said = resumed(copy, obs)
        except DataError:
            outcomes["refused"] += 1
        else:
            assert found == edges, (k, place)
            outcomes["said, and computed again" if said else "of no consequence"] += 1
        for file in tmp_path.iterdir():
            file.unlink()
    for outcome, n in outcomes.items():
        harness.count("flipped bits in a journal", outcome, n)
    assert outcomes["said, and computed again"] >= flips // 2


BAD_VALUES = {
    "text for a score": "UPDATE scores SET payload = 'abc' WHERE rowid_ = 1",
    "NULL for a score": "UPDATE scores SET payload = NULL WHERE rowid_ = 1",
    "odd length": "UPDATE scores SET payload = x'0102030405' WHERE rowid_ = 1",
    "an empty score": "UPDATE scores SET payload = x'' WHERE rowid_ = 1",
    "another score": "UPDATE scores SET payload = x'000000000000F03F000000000000F03F' "
    "WHERE rowid_ = 1",
    "a number for a context": "UPDATE scores SET context = 7 WHERE rowid_ = 1",
    "text that is no UTF-8": "UPDATE scores SET item = CAST(x'FF00FE' AS TEXT) WHERE rowid_ = 1",
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_wrong_values_are_dropped_and_counted(name: str, searched, tmp_path: Path) -> None:
    path, obs, edges = searched
    copy = tmp_path / "journal.sqlite"
    shutil.copy(path, copy)
    connection = sqlite3.connect(copy)
    first = "(context, item) = (SELECT context, item FROM scores LIMIT 1)"
    connection.execute(BAD_VALUES[name].replace("rowid_ = 1", first))
    connection.commit()
    connection.close()
    found, said = resumed(copy, obs)
    assert found == edges
    assert len(said) == 1
    assert "1 of " in said[0]
    assert "computed again" in said[0]


@pytest.mark.parametrize("sql", ["UPDATE meta SET value = NULL", "UPDATE meta SET value = 'x'"])
def test_a_changed_description_is_not_believed(sql: str, searched, tmp_path: Path) -> None:
    path, obs, edges = searched
    copy = tmp_path / "journal.sqlite"
    shutil.copy(path, copy)
    connection = sqlite3.connect(copy)
    connection.execute(f"{sql} WHERE name = 'data'")
    connection.commit()
    connection.close()
    found, said = resumed(copy, obs)
    assert found == edges
    assert "description" in said[0]


def test_a_view_that_never_ends_is_not_read(searched, tmp_path: Path) -> None:
    path, obs, edges = searched
    copy = tmp_path / "journal.sqlite"
    shutil.copy(path, copy)
    connection = sqlite3.connect(copy)
    connection.execute("DROP TABLE scores")
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    columns = "'c' AS context, x AS item, x'00' AS payload, x'00' AS checksum"
    connection.execute(f"CREATE VIEW scores AS {endless} SELECT {columns} FROM n")
    connection.commit()
    connection.close()
    assert journal_module.n_scores(copy) == 0
    found, said = resumed(copy, obs)
    assert found == edges
    assert "set aside" in said[0]


def test_scores_of_another_version_are_refused(searched, tmp_path: Path, monkeypatch) -> None:
    path, obs, _ = searched
    copy = tmp_path / "journal.sqlite"
    shutil.copy(path, copy)
    monkeypatch.setattr(journal_module, "program", lambda: "asterism 9.9, code abc")
    with pytest.raises(DataError, match=r"another version of the program.*asterism 9\.9"):
        learner(search="exhaustive", journal=copy, resume=True).fit(obs)


def test_a_journal_of_the_first_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT)")
    connection.execute("CREATE TABLE scores (context TEXT, item TEXT, payload BLOB)")
    connection.execute("INSERT INTO meta VALUES ('format', '1')")
    connection.commit()
    connection.close()
    with pytest.raises(DataError, match="another version of the program"):
        learner(search="exhaustive", journal=path, resume=True).fit(data())


def test_two_searches_do_not_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    first = Journal.open(path, {"data": "x"}, resume=False)
    with pytest.raises(DataError, match=r"is being written by process \d+"):
        Journal.open(path, {"data": "x"}, resume=True)
    first.add("a", "1", np.array([1.0]))
    first.close()
    first.close()  # safe
    second = Journal.open(path, {"data": "x"}, resume=True)
    assert second.known("a")["1"] == np.array([1.0])
    second.close()


@pytest.mark.parametrize(
    "error", [MemoryError, AsterismError("The disk is full"), OSError(28, "x")]
)
def test_what_was_scored_is_kept_whatever_ends_the_search(
    error, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.command_line import invoke

    made = invoke(
        "simulate", "--glauber", "tree:4", "-o", tmp_path / "data.csv", "--trajectories", 6
    )
    assert made.exit_code == 0, made.output
    real, count = Journal.add, 0

    def fails_later(journal: Journal, *row: object) -> None:
        nonlocal count
        count += 1
        real(journal, *row)  # type: ignore[arg-type]
        if count == 5:
            raise error

    flags = ("--max-parents", 1, "--jobs", 1, "--search", "exhaustive", "--method", "star")
    monkeypatch.setattr(Journal, "add", fails_later)
    stopped = invoke("learn", tmp_path / "data.csv", "-o", tmp_path / "RUN", *flags)
    assert stopped.exit_code in (2, 3), stopped.output
    assert "error of asterism itself" not in stopped.stderr
    assert "--resume" in stopped.stderr
    assert journal_module.n_scores(tmp_path / "RUN" / "journal.sqlite") == 5
    monkeypatch.setattr(Journal, "add", real)
    resumed = invoke("learn", tmp_path / "data.csv", "-o", tmp_path / "RUN", *flags, "--resume")
    assert resumed.exit_code in (0, 4), resumed.output
    plain = invoke("learn", tmp_path / "data.csv", "-o", tmp_path / "PLAIN", *flags)
    assert plain.exit_code in (0, 4)
    for name in ("edges.csv", "families.csv", "network.json"):
        assert (tmp_path / "RUN" / name).read_bytes() == (tmp_path / "PLAIN" / name).read_bytes()
