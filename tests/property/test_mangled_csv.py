"""Mangled tables: ``check`` and ``learn`` succeed or say in one paragraph what is wrong.

A table that was once valid is cut, doubled, sprinkled with odd characters or glued from random
cells. The only exit codes are 0, 3 (bad data), 2 (usage) and, for ``learn``, 4 (not converged); an
error of the program itself would be 1.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from tests.command_line import invoke
from tests.faults import harness

VALID = (
    "trajectory,time,A,B,C\n"
    "1,0,on,0.1,x\n1,1,off,0.3,y\n1,2.5,on,,x\n1,3,on,0.2,x\n"
    "2,0,off,0.9,y\n2,1,on,1.1,x\n2,2,off,0.7,x\n2,4,off,0.8,y\n"
)
#: a line cut and doubled: C is x and y at one time, which only inference finds out
CONTRADICTION = VALID.replace("2,1,on,", "2,1,on,,y\n2,1,on,")
# one trajectory is a single moment, to which no other can be moved
ONE_MOMENT = "trajectory,time,A,B\n0,0,on,on\n1,0,on,off\n1,1,off,é\n"
ODD = st.sampled_from(
    [",", ";", "\t", '"', "'", "\n", "\r", "\r\n", "\0", "\ufeff", " ", "-", "1e999", "nan", "inf",
     "NA", "time", "trajectory", "node", "value", "state", "p_0", "é", "基", "\U0001f9ec", "\u2028",
     "0x10", "1_0", "=1+1", "\\", "h", " min", "Day ", "2024-03-01", "nd",
     "{value}", "%s", "1,5", "\x1a", "\ud7ff"]
)  # fmt: skip
CELL = st.one_of(
    st.sampled_from(["0", "1", "0.5", "on", "off", "", "NA", "-", "1e300", "-1e300", "2h"]),
    st.text(max_size=6),
)
HEADER = st.lists(
    st.sampled_from(["trajectory", "time", "A", "B", "node", "value", "state", "p_a", "p_b", "id"]),
    min_size=1,
    max_size=5,
)


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A valid table after a few accidents."""
    text = VALID
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        to = min(at + draw(st.integers(0, 12)), len(text))
        match draw(st.sampled_from(["insert", "delete", "double", "replace"])):
            case "insert":
                text = text[:at] + draw(ODD) + text[at:]
            case "delete":
                text = text[:at] + text[to:]
            case "double":
                text = text[:to] + text[at:]
            case "replace":
                text = text.replace(draw(st.sampled_from(list(",\n.10o"))), draw(ODD))
    return text


@st.composite
def glued(draw: st.DrawFn) -> str:
    """A header that may mean something over cells that may not."""
    header = draw(HEADER)
    rows = draw(st.lists(st.lists(CELL, min_size=len(header), max_size=len(header)), max_size=8))
    return "\n".join(",".join(row) for row in [header, *rows])


@st.composite
def plausible(draw: st.DrawFn) -> str:
    """Right in form, odd in its values: these reach the model."""
    kinds = draw(st.lists(st.sampled_from(["text", "whole", "level", "wild"]), max_size=3))
    values = {
        "text": st.sampled_from(["on", "off", "", "é"]),
        "whole": st.sampled_from(["0", "1", "2", ""]),
        "level": st.sampled_from(["0.25", "0.5", "0.75", "7.125", "8", ""]),
        "wild": st.sampled_from(["0.5", "1e300", "-1e300", "1e-300", "3"]),
    }
    lines = ["trajectory,time," + ",".join("ABC"[: len(kinds)])]
    for trajectory in range(draw(st.integers(1, 3))):
        for k in range(draw(st.integers(1, 6))):
            cells = [draw(values[kind]) for kind in kinds]
            lines.append(f"{trajectory},{k}," + ",".join(cells))
    return "\n".join(lines) + "\n"


def assert_sound_outcome(command: list[str], text: str, codes: set[int]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
        output = [] if command[0] == "check" else ["-o", str(Path(folder) / "RUN")]
        result = invoke(*command, path, *output)
        said = result.output
        event(f"exit code {result.exit_code}")
        assert result.exit_code in codes, (result.exit_code, text, said)
        assert "Traceback" not in said
        if result.exit_code in (2, 3):
            assert "Error" in said or "problem" in said
            assert "\n\n" not in said.strip()
        return result.exit_code


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(mangled(), glued(), st.text(max_size=80)))
@example('time,A\n0,"' + "x" * 200_000 + '"\n')
@example("time,A\n" + "0," * 5)
def test_check_never_breaks(text: str) -> None:
    assert_sound_outcome(["check"], text, {0, 2, 3})


def assert_learn_is_sound(text: str) -> None:
    learned = assert_sound_outcome(
        ["learn", "--max-parents", "1", "--max-sweeps", "2", "--method", "star"],
        text,
        {0, 2, 3, 4},
    )
    # whatever learn refuses, check says
    assert (assert_sound_outcome(["check"], text, {0, 2, 3}) == 0) == (learned in (0, 4)), text


LEARNED = st.one_of(mangled(), plausible())


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(LEARNED)
@example(CONTRADICTION)
@example(ONE_MOMENT)
def test_learn_never_breaks(text: str) -> None:
    assert_learn_is_sound(text)


@pytest.mark.slow
@settings(
    max_examples=100 if harness.REDUCED else 500,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(LEARNED)
def test_learn_never_breaks_often(text: str) -> None:
    assert_learn_is_sound(text)
