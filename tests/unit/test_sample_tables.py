"""Tables as they come: genes in rows, times in the header or in annotations, too many columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from asterism.data.sample_tables import Grid, Sample, annotated, read_names
from tests import sample_sheets as sheets
from tests.command_line import invoke


def test_annotations_say_from_when_to_when_a_stimulus_acted() -> None:
    names = [f"s{k}" for k in range(6)]
    grid = Grid(["gene", *names], [["A", *"123456"]], [2], False)
    notes = pd.DataFrame(
        {
            "sample": names,
            "hours": [0, 1, 2, 3, 4, 5],
            "stimulus": ["drug", "drug", "control", "yes", "salt", "salt"],
        }
    )

    def first(free: Any, wanted: Any) -> str | None:
        return next((c for c in free if c in (wanted or ("hours",))), None)

    found = annotated(grid, notes, first)
    assert found is not None
    told = found[2]
    assert told is not None
    rows = told[["name", "start", "end"]].astype(object).where(told.notna(), None)
    # an empty start or end is that of the trajectory
    assert [tuple(row) for row in rows.to_numpy()] == [
        ("drug", None, 2.0),
        ("stimulus", 3.0, 4.0),
        ("salt", 4.0, None),
    ]


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("alpha7", Sample(7.0, "", "alpha")),
        ("cdc15_10", Sample(10.0, "", "cdc15")),
        ("t=30min_rep2", Sample(30.0, "min", "rep2")),
        ("WT_2h_1", Sample(2.0, "h", "WT_1")),
        ("0h_rep1", Sample(0.0, "h", "rep1")),
        ("X4.5h.2", Sample(4.5, "h", "2")),
        ("Day 14", Sample(14.0, "days", "1")),
        ("ctrl 6 hr r1", Sample(6.0, "h", "ctrl_r1")),
        ("T12", Sample(12.0, "", "1")),
        ("20", Sample(20.0, "", "1")),
    ],
)
def test_a_name_says_time_and_trajectory(name: str, sample: Sample) -> None:
    number = f"{sample.time:g}"
    spelled = [name.replace(number, str(t)) for t in (0, 3, 9, 31)]
    found = read_names(["gene", *spelled, name])
    assert found is not None
    assert found[5] == sample


@pytest.mark.parametrize(
    "names",
    [
        ["gene", *(f"GSM{i}" for i in range(1, 9))],
        ["gene", *(f"S{i}" for i in range(1, 9))],
        ["patient", "age", "sex", "bp1", "bp2", "bp3"],
        ["g", "A1", "A2", "A3", "B1", "B2", "B3"],
        ["time", "A", "B", "C"],
    ],
)
def test_names_that_only_count_are_no_times(names: list[str]) -> None:
    assert read_names(names) is None


def checked(path: Path, *flags: object) -> dict[str, Any]:
    result = invoke("check", path, "--json", *flags)
    found = json.loads(result.stdout)
    assert found["ok"] == (result.exit_code == 0)
    return found


@pytest.mark.parametrize(
    ("make", "name", "n_trajectories", "n_times", "unit", "said"),
    [
        (sheets.phases, "cycle.csv", 2, 20, "", "'alpha7' is time 7 of trajectory 'alpha'"),
        (sheets.replicates, "counts.tsv", 3, 18, "h", "The numbers are counts"),
        (sheets.annotated, "book.xlsx", 2, 16, "min", "sheet 'samples' (--samples)"),
        (sheets.two_headers, "two.csv", 2, 14, "h", "the first two rows are its header"),
        (sheets.clinical, "visits.csv", 12, 60, "months", "'months' is the time"),
    ],
)
def test_tables_as_they_come_are_understood_and_said(
    tmp_path: Path, make: Any, name: str, n_trajectories: int, n_times: int, unit: str, said: str
) -> None:
    found = checked(make(tmp_path / name), "--states", 2)
    assert found["ok"], found["problems"]
    assert (found["n_trajectories"], found["n_times"]) == (n_trajectories, n_times)
    assert found["time_unit"] == unit
    told = " ".join(found["decisions"])
    assert said in told or said.replace("alpha7", "alpha0").replace("time 7", "time 0") in told
    if make is not sheets.clinical:
        assert "--kind wide undoes this" in told
        assert [node["node"] for node in found["nodes"]][: found["n_nodes"]]
        assert found["n_nodes"] == 4


@pytest.mark.parametrize(
    ("make", "name", "n_pairs"),
    [
        (sheets.phases, "cycle.csv", 12),
        (sheets.replicates, "counts.tsv", 12),
        (sheets.annotated, "book.xlsx", 12),
        (sheets.two_headers, "two.csv", 12),
        (sheets.clinical, "visits.csv", 4),  # nothing leads to the year of recruitment
    ],
)
def test_from_the_file_to_the_page_without_a_flag_about_the_table(
    tmp_path: Path, make: Any, name: str, n_pairs: int
) -> None:
    result = invoke("learn", make(tmp_path / name), "-o", tmp_path / "run", "--method", "star")
    assert result.exit_code in (0, 4), result.output
    assert "most probable contain about" in " ".join(result.output.split())
    edges = pd.read_csv(tmp_path / "run" / "edges.csv", keep_default_na=False)
    assert len(edges) == n_pairs
    assert (edges["effect"].head(10) != "").all()
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    first = edges.iloc[0]
    assert f"{first['parent']} → {first['child']}" in body
    assert body.count("<tr ") == min(10, len(edges))


def test_values_reach_the_right_gene_time_and_trajectory(tmp_path: Path) -> None:
    table = pd.read_csv(sheets.phases(tmp_path / "cycle.csv"), index_col=0)
    result = invoke("learn", tmp_path / "cycle.csv", "-o", tmp_path / "run", "--method", "star",
                    "--states", 2, "--max-parents", 1)  # fmt: skip
    assert result.exit_code in (0, 4), result.output
    seen = pd.read_csv(tmp_path / "run" / "observations.csv")
    row = seen[(seen["node"] == "ASH1") & (seen["trajectory"] == "cdc15") & (seen["time"] == 30)]
    assert row["value"].item() == table.loc["ASH1", "cdc15_30"]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "ranking-table" in page
    edges = pd.read_csv(tmp_path / "run" / "edges.csv")
    assert edges["effect"].head(10).notna().all()


def test_a_flag_undoes_the_guess_and_another_demands_it(tmp_path: Path) -> None:
    path = sheets.phases(tmp_path / "cycle.csv")
    assert "No column looks like the time" in invoke("check", path, "--kind", "wide").output
    plain = tmp_path / "plain.csv"
    pd.DataFrame({"gene": ["a", "b"], "x": [1, 2], "y": [3, 4]}).to_csv(plain, index=False)
    refused = invoke("check", plain, "--kind", "rows")
    assert refused.exit_code == 3
    assert "--samples" in refused.output
    counts = sheets.replicates(tmp_path / "counts.tsv")
    kept = checked(counts, "--counts", "keep", "--states", 2)
    largest = [float(node["values"].split(" to ")[-1]) for node in kept["nodes"]]
    assert max(largest) > 50


def test_annotations_may_be_a_file_and_samples_may_be_rows(tmp_path: Path) -> None:
    book = sheets.annotated(tmp_path / "book.xlsx")
    values = pd.read_excel(book, sheet_name="expression")
    notes = pd.read_excel(book, sheet_name="samples")
    notes.to_csv(tmp_path / "notes.csv", index=False)
    values.to_csv(tmp_path / "values.csv", index=False)
    turned = values.set_index("Gene").T.rename_axis("sample").reset_index()
    turned.to_csv(tmp_path / "turned.csv", index=False)
    whole = checked(book, "--states", 2)
    for name in ("values.csv", "turned.csv"):
        found = checked(tmp_path / name, "--samples", tmp_path / "notes.csv", "--states", 2)
        for key in ("n_nodes", "n_trajectories", "n_times", "n_measurements", "time_unit"):
            assert found[key] == whole[key]
    notes.to_csv(tmp_path / "values_samples.csv", index=False)
    beside = checked(tmp_path / "values.csv", "--states", 2)
    assert beside["n_trajectories"] == 2
    for given, words in (
        ("nowhere.csv", "neither a file nor a sheet"),
        (sheets.clinical(tmp_path / "visits.csv"), "names the samples"),
    ):
        result = invoke("check", tmp_path / "turned.csv", "--samples", given)
        assert result.exit_code == 3
        assert words in result.output


def test_a_bad_cell_is_named_where_it_stands_in_the_file(tmp_path: Path) -> None:
    path = sheets.phases(tmp_path / "cycle.csv")
    table = pd.read_csv(path, dtype=str)
    table.loc[2, "cdc15_30"] = "broken"
    table.to_csv(path, index=False)
    problem = checked(path)["problems"][0]
    assert (problem["row"], problem["column"]) == (4, "cdc15_30")
    assert "broken" in problem["message"]
    assert problem["remedy"]
    assert problem["remedy"] not in problem["message"]


def test_a_table_without_a_time_is_a_problem_in_json_too(tmp_path: Path) -> None:
    (tmp_path / "no.csv").write_text("x,y\n1,2\n")
    found = checked(tmp_path / "no.csv")
    assert not found["ok"]
    assert "No column looks like the time" in found["problems"][0]["message"]


def test_a_period_is_not_taken_for_the_time(tmp_path: Path) -> None:
    path = sheets.clinical(tmp_path / "visits.csv")
    table = pd.read_csv(path)
    table.drop(columns="months").to_csv(path, index=False)
    result = invoke("check", path)
    assert result.exit_code == 3
    assert "'year' holds no single times" in result.output
    table.assign(year=1995 + table["months"]).drop(columns="months").to_csv(path, index=False)
    assert "column 'year' is the time" in " ".join(checked(path, "--states", 2)["decisions"])


def test_what_patients_keep_is_no_course_of_theirs(tmp_path: Path) -> None:
    """The age at the first visit is neither the time nor a node, and nothing leads to the sex."""
    path = sheets.clinical(tmp_path / "visits.csv")
    table = pd.read_csv(path).drop(columns=["year", "site"])
    months = table.pop("months")
    number = table["patient_id"].str[1:].astype(int)
    table["Visit date"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(30 * months, unit="D")
    table["Age"], table["Sex"] = 40.5 + number, np.where(number % 2, "f", "m")
    table.to_csv(path, index=False)
    said = " ".join(checked(path)["decisions"])
    assert "column 'Visit date' is the time" in said
    assert "keeps its number: 'Age'" in said
    assert "keeps its state of 'Sex'" in said
    result = invoke("learn", path, "-o", tmp_path / "RUN", "--method", "star")
    assert result.exit_code in (0, 4), result.output
    edges = pd.read_csv(tmp_path / "RUN" / "edges.csv")
    assert set(edges["child"]) == {"status", "crp"}
    assert set(edges["parent"]) == {"status", "crp", "Sex"}
    # where the age is all there is, and moves, it is the time
    table["Age"] += months / 12
    table.drop(columns="Visit date").to_csv(path, index=False)
    assert "column 'Age' is the time" in " ".join(checked(path)["decisions"])
    # too few rows to say that nothing changes
    table[table["patient_id"] < "P03"].to_csv(path, index=False)
    assert "keeps" not in " ".join(checked(path)["decisions"])


def test_the_sheet_of_a_workbook_that_is_a_table_is_found(tmp_path: Path) -> None:
    """A title page first, a legend last, and a title above the table itself."""
    table = pd.read_csv(sheets.clinical(tmp_path / "visits.csv"))
    path = tmp_path / "export.xlsx"
    with pd.ExcelWriter(path) as book:
        title = pd.DataFrame([["Study 12"], ["exported in March"]])
        title.to_excel(book, sheet_name="About", index=False, header=False)
        table.to_excel(book, sheet_name="Visits", index=False, startrow=3)
        pd.DataFrame({"code": ["ill"], "meaning": ["not well"]}).to_excel(book, sheet_name="Codes")
    found = checked(path)
    assert found["ok"]
    assert found["sheets"] == ["About", "Visits", "Codes"]
    assert found["header"] == list(table.columns)
    assert "sheet 'Visits' is read (--sheet)" in found["decisions"][0]
    result = invoke("fit", path, "--nodes", "status", "--covariate", "year", "-o", tmp_path / "RUN")
    assert result.exit_code == 0, result.output
    assert "Hazard ratio of year=1999-2002" in result.output
    wrong = invoke("check", path, "--sheet", "About")
    assert wrong.exit_code == 3


def test_too_many_columns_are_said_with_what_to_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(12, 60)), columns=[f"g{i}" for i in range(60)])
    table["g7"] *= 30.0
    table["g31"] *= 20.0
    table.insert(0, "time", range(12))
    table.to_csv(tmp_path / "wide.csv", index=False)
    warned = " ".join(checked(tmp_path / "wide.csv", "--states", 2)["warnings"])
    assert "60 nodes were measured at only 12 times" in warned
    assert "--top" in warned
    assert "--nodes" in warned
    few = checked(tmp_path / "wide.csv", "--top", 2, "--states", 2)
    assert [node["node"] for node in few["nodes"]] == ["g7", "g31"]
    assert not any("only 12 times" in text for text in few["warnings"])
