"""Odd tables: ``check`` says what is expected, and ``learn`` agrees with ``check``."""

from __future__ import annotations

from pathlib import Path

import pytest

from asterism.commands.exits import NOT_CONVERGED
from tests.command_line import invoke
from tests.odd_tables import OK, TABLES, OddTable


def test_there_are_at_least_forty() -> None:
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names) >= 40


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_check_and_learn_agree_on_odd_tables(table: OddTable, tmp_path: Path) -> None:
    path = tmp_path / table.name
    table.write(path)
    checked = invoke("check", path, *table.flags)
    said = checked.output
    assert checked.exit_code == table.code, said
    for words in table.says:
        assert words in said, said
    for words in table.never:
        assert words not in said, said
    assert "Traceback" not in said
    learned = invoke(
        *("learn", path, *table.flags, "-o", tmp_path / "RUN", "--max-parents", "1"),
        *("--max-sweeps", "3", "--jobs", "1", "--method", "star"),
    )
    if table.code == OK:
        assert learned.exit_code in (OK, NOT_CONVERGED), learned.output
    else:
        assert learned.exit_code == table.code, learned.output
        assert not (tmp_path / "RUN").exists()
