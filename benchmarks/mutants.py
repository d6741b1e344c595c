"""Mutation testing: small wrong changes to a module, and whether its tests notice.

Each mutant changes one operator, comparison, constant or sign in one function; its tests run with
the compiler off, in a process of their own with a time limit. A mutant that no test notices is
listed: either a test is missing, or the change means nothing. Mutants are drawn evenly over the
module, so that a short run says something about all of it.
Run: python benchmarks/mutants.py MODULE "TEST FILES" [--mutants 20] [--minutes 5] -o out/
"""

from __future__ import annotations

import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import option_parser, write_table

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def changes(tree: ast.Module) -> list[tuple[int, str, int]]:
    """Every place that can be changed: number of the node, what is done, line."""
    found = []
    for number, node in enumerate(ast.walk(tree)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in SWAPS:
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
    node = list(ast.walk(changed))[number]
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.Constant):
        assert isinstance(node.value, (int, float))
        node.value = node.value + 1
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
    return ast.unparse(ast.fix_missing_locations(changed))


def run_tests(source: Path, root: Path, tests: list[str], seconds: float) -> str:
    """What the tests say about a copy of the source."""
    environment = {
        **os.environ, "PYTHONPATH": str(source), "NUMBA_DISABLE_JIT": "1", "ASTERISM_REDUCED": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return "killed (too slow)"
    return "survived" if done.returncode == 0 else "killed"


def main() -> None:
    parser = option_parser(__doc__, "benchmark-mutants")
    parser.add_argument("module", help="path below src, such as asterism/evidence/build.py")
    parser.add_argument("tests", help="test files, with spaces between them")
    parser.add_argument("--mutants", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=5.0)
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    tests = arguments.tests.split()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "src"
        shutil.copytree(root / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source / arguments.module
        original = file.read_text(encoding="utf-8")
        tree = ast.parse(original)
        begin = time.monotonic()
        if run_tests(source, root, tests, 600) != "survived":
            sys.exit("The tests fail without any change.")
        limit = 30.0 + 5.0 * (time.monotonic() - begin)
        possible = changes(tree)
        step = max(1, len(possible) // arguments.mutants)
        chosen = possible[random.Random(0).randrange(step) :: step][: arguments.mutants]
        rows = []
        end = time.monotonic() + 60.0 * arguments.minutes
        for number, what, line in chosen:
            if time.monotonic() > end:
                break
            file.write_text(mutant(tree, number), encoding="utf-8")
            verdict = run_tests(source, root, tests, limit)
            rows.append({"module": arguments.module, "line": line, "change": what,
                         "outcome": verdict})  # fmt: skip
            print(rows[-1], flush=True)
    killed = sum(row["outcome"] != "survived" for row in rows)
    print(f"{killed} of {len(rows)} mutants noticed ({len(possible)} are possible)")
    name = arguments.module.removesuffix(".py").replace("/", "_")
    write_table(rows, arguments.output / f"mutants_{name}.csv")


if __name__ == "__main__":
    main()
