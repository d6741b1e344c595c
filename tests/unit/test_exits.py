"""Errors on their way to the command line: said in flags, and otherwise as they were raised."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner, Result

from asterism.cli import CommandGroup
from asterism.commands.exits import BAD_DATA
from asterism.errors import AsterismError, DataError, Sentence, Setting
from asterism.star.batch import ImpossibleEvidence


class OfTwoNumbers(DataError):
    """Like any error that composes its own sentence: one argument cannot make it anew."""

    def __init__(self, row: int, column: int) -> None:
        self.row, self.column = row, column
        super().__init__(f"Row {row}, column {column}: raise ", Setting("max_sweeps"), ".")


UNDER = Sentence("mean field: use ", Setting("method", "star"))

ERRORS = [
    OfTwoNumbers(3, 4),
    ImpossibleEvidence(1, "cell 2", 0, 2.5, "SWI5", UNDER),
    ImpossibleEvidence(1, "cell 2", 0, 2.5).named(["SWI5"], "mean_field"),
    DataError("It did not settle: raise ", Setting("max_sweeps"), "."),
]


def group_that_raises(error: AsterismError) -> CommandGroup:
    @click.group(cls=CommandGroup)
    def group() -> None: ...

    @group.command()
    @click.option("--max-sweeps")
    @click.option("--method")
    def infer(**_: object) -> None:
        raise error

    assert isinstance(group, CommandGroup)
    return group


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_any_error_is_reported_in_flags(error: AsterismError) -> None:
    result: Result = CliRunner().invoke(group_that_raises(error), ["infer"])
    assert result.exit_code == BAD_DATA, result.output
    assert result.stderr.startswith("Error: ")
    assert "--max-sweeps" in result.stderr or "--method star" in result.stderr
    assert "error of asterism itself" not in result.stderr
    assert "max_sweeps" not in result.stderr
    assert "method=" not in result.stderr


def test_an_error_keeps_its_kind_and_what_it_knows() -> None:
    error = ImpossibleEvidence(1, "cell 2", 0, 2.5, "SWI5", UNDER)
    group = group_that_raises(error)
    with pytest.raises(ImpossibleEvidence, match="use --method star") as caught:
        group.main(["infer"], standalone_mode=False)
    assert caught.value is error
    assert (error.trajectory, error.label, error.node, error.time) == (1, "cell 2", 0, 2.5)
