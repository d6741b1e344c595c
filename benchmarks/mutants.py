"""Mutation testing: small wrong changes to the code, and whether its tests notice.

Each mutant changes one operator, comparison, constant or sign in one function. Its tests run with
the compiler off, in a fork of a process that has everything loaded, with a time limit.
A mutant that no test notices is listed: either a test is missing, or the change means nothing
(``mutants_reasons.csv`` says why). Mutants are drawn at random with a fixed seed, as many from each
part of the code as asked for.
Tests were added with the survivors of seeds 21 to 27 in view, and with the list of all possible
mutants of the structure score, evidence building and EM; the table says which seed it is of.
Parts that are not asked for keep their rows.
Run: python benchmarks/mutants.py [PART ...] [--mutants 40] [--minutes 10] -o benchmarks/results
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import math
import os
import random
import resource
import signal
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"
os.environ["ASTERISM_REDUCED"] = "1"

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
REASONS = Path(__file__).with_name("mutants_reasons.csv")
#: of a survivor that is not known to do no harm
MISSING = "a test is missing"

_KERNEL = "tests/unit/test_marginal_kernel.py::"
_SAMPLER = "tests/unit/test_sampler_numbers.py::"

#: what is changed, and which tests must notice
PARTS: dict[str, tuple[list[str], list[str]]] = {
    "structure score": (
        ["learning/search/_marginal.py", "learning/search/_complete_score.py",
         "learning/search/score.py"],
        ["tests/unit/test_score_numbers.py",
         "tests/agreement/test_complete_score.py", "tests/agreement/test_gamma_terms.py",
         _KERNEL + "test_digamma_function",
         _KERNEL + "test_every_entry_of_the_summary_has_its_own_place",
         _KERNEL + "test_score_rates_and_statistics_of_the_plain_version[star-means]",
         _KERNEL + "test_score_rates_and_statistics_of_the_plain_version[mean_field-digamma]",
         _KERNEL + "test_forbidden_transitions_have_no_rates_and_no_terms",
         _KERNEL + "test_reaching_the_limit_is_not_convergence",
         _KERNEL + "test_mixing_and_warm_starts_lead_to_the_same_fixed_point[star]"],
    ),
    "evidence building": (
        ["timeline/build.py", "timeline/paths.py", "timeline/interventions.py"],
        ["tests/unit/test_evidence_builder.py"],
    ),
    "EM steps": (
        ["learning/em/rates_update.py", "learning/em/e_step.py", "learning/em/emission_fit.py"],
        ["tests/unit/test_em_steps.py"],
    ),
    "cluster messages": (
        ["clusters/_cluster_messages.py"],
        ["tests/unit/test_cluster_numbers.py", "tests/unit/test_cluster_messages.py"],
    ),
    "sampler sweep": (
        ["sampling/_gibbs.py", "sampling/_path.py", "sampling/_families.py"],
        [_SAMPLER + "test_a_seed_gives_the_draws_that_it_always_gave",
         _SAMPLER + "test_jumps_and_times_of_draws_are_counted_right[1.0]",
         _SAMPLER + "test_draws_honour_what_is_known", _SAMPLER + "test_what_cannot_be_is_named",
         _SAMPLER + "test_averages_over_draws_are_those_of_exact_inference"
         "[a pair that follows each other]"],
    ),
}  # fmt: skip

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def places(tree: ast.Module) -> list[ast.AST]:
    """Every node in order, without annotations and decorators, which do not compute."""
    idle: set[int] = set()
    for node in ast.walk(tree):
        quiet: list[Any] = []
        if isinstance(node, ast.FunctionDef):
            quiet = [*node.decorator_list, node.returns]
        elif isinstance(node, ast.AnnAssign | ast.arg):
            quiet = [node.annotation]
        for part in filter(None, quiet):
            idle |= {id(inner) for inner in ast.walk(part)}
    return [node for node in ast.walk(tree) if id(node) not in idle]


def changes(tree: ast.Module) -> list[tuple[int, str, int]]:
    """Everything that can be changed: number of the node, what is done, line."""
    found = []
    for number, node in enumerate(places(tree)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
            found.append((number, f"{type(node.op).__name__} swapped", line))
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            found.append((number, f"{type(node.ops[0]).__name__} swapped", line))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            found.append((number, f"{node.value!r} raised by one", line))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            found.append((number, "sign dropped", line))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found.append((number, "not dropped", line))
    return found


def mutant(tree: ast.Module, number: int) -> str:
    """The source with one node changed."""
    changed = copy.deepcopy(tree)
    node = places(changed)[number]
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        node.value = node.value + 1
    elif isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.USub):
            node.op = ast.UAdd()
        else:
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
    return ast.unparse(ast.fix_missing_locations(changed))


def put_into(module: Any, source: str) -> None:
    """Give the functions of a loaded module the code of a changed source.

    Functions stay the same objects, so whoever imported them has the change as well; with the
    compiler off a kernel is an ordinary function.
    """
    changed: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    exec(compile(source, str(module.__file__), "exec"), changed)
    for name, new in changed.items():
        old = vars(module).get(name)
        if isinstance(new, type) and isinstance(old, type) and new.__module__ == module.__name__:
            for member, value in vars(new).items():
                _swap(vars(old).get(member), value)
        elif isinstance(new, int | float | str | tuple | list | dict):
            if not name.startswith("__"):
                setattr(module, name, new)
        else:
            _swap(old, new)


def _swap(old: Any, new: Any) -> None:
    old, new = (getattr(f, "__func__", getattr(f, "fget", getattr(f, "func", f))) or f
                for f in (old, new))  # fmt: skip
    old, new = inspect.unwrap(old), inspect.unwrap(new)
    if not (isinstance(old, FunctionType) and isinstance(new, FunctionType)):
        return
    if old.__code__.co_freevars == new.__code__.co_freevars:
        old.__code__, old.__defaults__ = new.__code__, new.__defaults__
        old.__kwdefaults__ = new.__kwdefaults__


def ask(tests: list[str]) -> int:
    """pytest's exit code, in this process. Without the compiler numpy warns of wrapped numbers."""
    quiet = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return int(pytest.main([*quiet, "-W", "ignore", *tests]))


def run_tests(module: str, source: str, tests: list[str], seconds: float) -> tuple[str, float]:
    """What the tests say about a changed module, and their processor time.

    They run in a fork in which all is loaded already. The system ends a fork that uses more than
    ``seconds`` of processor time; a busy machine does not make a mutant look endless.
    """
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            limit = math.ceil(seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            name = "asterism." + module.removesuffix(".py").replace("/", ".")
            put_into(importlib.import_module(name), source)
            code = ask(tests)
        finally:
            os._exit(code)
    _, status, used = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    verdict = "survived" if code == 0 else "killed"
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        verdict = "killed (endless)"
    return verdict, used.ru_utime + used.ru_stime


def chosen(
    modules: list[str], n_mutants: int, seed: int
) -> tuple[list[tuple[str, int, str, int]], int]:
    """Mutants drawn at random from all modules of a part, and how many there are."""
    possible = []
    for module in modules:
        tree = ast.parse((ROOT / "src/asterism" / module).read_text(encoding="utf-8"))
        possible += [(module, *change) for change in changes(tree)]
    drawn = random.Random(seed).sample(possible, min(n_mutants, len(possible)))
    return drawn, len(possible)


def measure(
    part: str, n_mutants: int, minutes: float, seed: int
) -> tuple[dict[str, Any], list[dict]]:
    """One row of the summary, and one for every mutant."""
    modules, tests = PARTS[part]
    drawn, n_possible = chosen(modules, n_mutants, seed)
    rows = []
    if ask(tests) != 0:  # loads all that they need as well
        sys.exit(f"{part}: the tests fail without any change.")
    originals = {m: (ROOT / "src/asterism" / m).read_text(encoding="utf-8") for m in modules}
    usual = 0.0
    for module, original in originals.items():
        verdict, took = run_tests(module, ast.unparse(ast.parse(original)), tests, 600)
        if verdict != "survived":
            sys.exit(f"{part}: the tests fail when nothing but the layout of {module} changes.")
        usual = max(usual, took)
    print(f"{part}: {n_possible} mutants are possible, the tests take {usual:.1f} s")
    spent = 0.0
    for module, number, what, line in drawn:
        if spent > 60.0 * minutes:
            break
        changed = mutant(ast.parse(originals[module]), number)
        verdict, took = run_tests(module, changed, tests, 5.0 + 3.0 * usual)
        spent += took
        code = originals[module].splitlines()[line - 1].strip()
        rows.append(
            {"part": part, "module": module, "line": line, "code": code, "change": what,
             "outcome": verdict}
        )  # fmt: skip
        print(f"  {verdict}: {module}:{line} {what}: {code}", flush=True)
    killed = sum(row["outcome"] != "survived" for row in rows)
    summary = {
        "part": part, "seed": seed, "possible": n_possible, "tried": len(rows), "killed": killed,
        "share": killed / max(1, len(rows)), "seconds_per_mutant": usual,
    }  # fmt: skip
    return summary, [row for row in rows if row["outcome"] == "survived"]


def explain(folder: Path) -> None:
    """Look the reasons of all survivors up again, and count those that have none."""
    from common import write_table

    survivors = with_reasons(read_rows(folder / "mutants_survivors.csv"))
    write_table(survivors, folder / "mutants_survivors.csv")
    missing = [row["part"] for row in survivors if row["reason"] == MISSING]
    summaries = read_rows(folder / "mutants.csv")
    for row in summaries:
        row["missed"] = missing.count(row["part"])
        row["share_of_harmful"] = row["killed"] / max(1, row["killed"] + row["missed"])
    write_table(summaries, folder / "mutants.csv")


def with_reasons(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The survivors, each with the reason why it is none to worry about, where one is known."""
    by = ("module", "code", "change")
    known = {tuple(row[k] for k in by): row["reason"] for row in read_rows(REASONS)}
    names = ("part", "module", "line", "code", "change")
    return [
        {**{k: row[k] for k in names}, "reason": known.get(tuple(row[k] for k in by), MISSING)}
        for row in rows
    ]


def main() -> None:
    from common import option_parser, write_table

    parser = option_parser(__doc__, "benchmark-mutants")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--mutants", type=int, default=40, help="drawn from each part")
    parser.add_argument("--seed", type=int, default=31, help="of the sample of mutants")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="of processor time, for each part"
    )
    parser.add_argument("--explain", action="store_true", help="only look the reasons up again")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for part in [] if arguments.explain else arguments.parts:
        summary, own = measure(part, arguments.mutants, arguments.minutes, arguments.seed)
        for name, rows in (("mutants.csv", [summary]), ("mutants_survivors.csv", own)):
            path = arguments.output / name
            others = [row for row in read_rows(path) if row["part"] != part]
            write_table(others + rows, path)
    explain(arguments.output)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a table that an earlier run wrote; none if there is no such file."""
    if not path.exists() or not path.read_text(encoding="utf-8").strip():
        return []
    return pd.read_csv(path).to_dict("records")


if __name__ == "__main__":
    main()
