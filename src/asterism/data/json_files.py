"""The one way to read JSON: what is not a plain, sensible document is refused in one sentence.

Refused besides broken syntax: names given twice (which of the two would count?), nesting deeper
than any of our files, and numbers too long to be meant.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asterism.errors import AsterismError, DataError

#: digits of a whole number; a double has 309 at most
MAX_DIGITS = 400
#: lists within lists
MAX_DEPTH = 100


def read_json(
    path: str | Path, what: str = "JSON file", error: type[AsterismError] = DataError
) -> Any:
    """The content of a file, or a sentence that says why it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise error(f"There is no {what} {str(path)!r}.") from None
    except UnicodeDecodeError as problem:
        raise error(f"Cannot read the {what} {str(path)!r}: {problem}.") from None
    except OSError as problem:
        raise error(
            f"Cannot read the {what} {str(path)!r}: {problem.strerror or problem}."
        ) from None
    try:
        return parse_json(text)
    except ValueError as problem:
        raise error(f"{str(path)!r} is not a {what}: {problem}.") from None


def parse_json(text: str) -> Any:
    """The content of a text; raises ValueError with what is wrong."""
    try:
        content = json.loads(
            text, object_pairs_hook=_each_name_once, parse_int=_whole, parse_constant=_no_constant
        )
        _require_shallow(content)
        if "\\ud" in text.lower():  # half of a character, which no file or screen can hold
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as problem:
        raise ValueError(f"not JSON ({problem})") from None
    except UnicodeEncodeError:
        raise ValueError("a text holds half a character (a lone surrogate)") from None
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep") from None
    return content


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:80]!r} is given twice in one place")
    return found


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _require_shallow(content: Any) -> None:
    level = [content]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise RecursionError
