"""Reproductions save what they finish, go on where they stopped, and write complete pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from asterism.errors import DataError
from asterism.paper import common
from asterism.paper.common import (
    ROWS,
    Page,
    SavedRows,
    Section,
    cell,
    for_each,
    mean_and_errors,
    write_page,
    write_table,
)
from asterism.report.figure_style import new_figure


def test_finished_cases_are_not_computed_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def square(case: dict[str, Any]) -> dict[str, Any]:
        calls.append(case["x"])
        if case["x"] == 2 and len(calls) == 3:
            raise KeyboardInterrupt
        return {"y": np.float64(case["x"] ** 2), "z": np.arange(2)}

    cases = [{"x": x} for x in range(4)]
    with pytest.raises(KeyboardInterrupt):
        for_each(tmp_path, cases, square, "squares")
    found = for_each(tmp_path, cases, square, "squares")
    assert calls == [0, 1, 2, 2, 3]
    assert [f["y"] for f in found] == [0.0, 1.0, 4.0, 9.0]
    assert found[1] == {"x": 1, "y": 1.0, "z": [0, 1]}


def test_other_settings_or_another_version_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = SavedRows(tmp_path)
    rows.add({"x": 1, "noise": 0.2}, {"y": 1})
    assert SavedRows(tmp_path).get({"noise": 0.2, "x": 1}) == {"y": 1}
    assert SavedRows(tmp_path).get({"x": 1, "noise": 0.6}) is None
    monkeypatch.setattr(common.asterism, "__version__", "999")
    assert SavedRows(tmp_path).get({"x": 1, "noise": 0.2}) is None


def test_half_a_line_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    rows = SavedRows(tmp_path)
    rows.add({"x": 1}, {"y": 1})
    with (tmp_path / ROWS).open("a") as file:
        file.write('{"case": {"x": 2}, "res')
    again = SavedRows(tmp_path)
    assert again.get({"x": 1}) == {"y": 1}
    assert again.get({"x": 2}) is None
    again.add({"x": 2}, {"y": 4})
    assert SavedRows(tmp_path).get({"x": 2}) == {"y": 4}


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ROWS).write_text("not json\n")
    with pytest.raises(DataError, match="not a file of saved rows"):
        SavedRows(tmp_path)


def test_mean_and_errors() -> None:
    assert mean_and_errors([1.0, 3.0]) == pytest.approx((2.0, 2**0.5, 1.0))
    assert mean_and_errors([5.0]) == (5.0, 0.0, 0.0)


def test_tables_have_six_digits(tmp_path: Path) -> None:
    path = write_table(tmp_path, "t", pd.DataFrame({"a": [1 / 3], "b": ["x"], "n": [7]}))
    assert path.read_text() == "a,b,n\n0.333333,x,7\n"


def test_the_page_needs_no_other_file(tmp_path: Path) -> None:
    figure = new_figure(2.0, 2.0)
    figure.subplots().plot([0, 1])
    common.write_figure(tmp_path, "f", figure)
    table = pd.DataFrame({"method": ["<star>"], "score": [0.12345], "won": [True]})
    page = Page(
        "T", "lead", [Section("S", ["text"], table, "f.png", ["point"])], [("a", "b")], True
    )
    text = write_page(tmp_path, page).read_text(encoding="utf-8")
    assert "data:image/png;base64," in text
    assert "&lt;star&gt;" in text
    assert "<td>0.123</td><td>yes</td>" in text
    assert "Quick version" in text
    assert "http" not in text
    assert 'src="f.png' not in text
    assert (tmp_path / "f.svg").is_file()


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.5, "0.5"), (2.0, "2"), (1e-5, "1e-05"), (float("nan"), ""), (None, ""), (0.0, "0")],
)
def test_cells(value: Any, shown: str) -> None:
    assert cell(value) == shown


def test_figures_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        figure = new_figure(2.0, 2.0)
        figure.subplots().plot([0, 1], label="x")
        common.write_figure(tmp_path, name, figure)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
