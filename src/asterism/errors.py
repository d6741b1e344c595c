"""The errors a user can meet, and the parts that they are made of.

A message says what is wrong, where, what would be right, and what to do. What to do has two forms:
a caller of Python changes ``max_sweeps=``, somebody at a prompt types ``--max-sweeps``. So a
message is a :class:`Sentence`, which remembers which of its words name a :class:`Setting`; the
library says it in Python's words, and the command line in its own (``commands/exits.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """A setting, by its name in Python, or a setting together with the value to give it.

    ``...`` stands for a value of the reader's own: ``labels=`` in Python, ``--labels`` as a flag.
    """

    name: str
    value: object = None

    def in_python(self) -> str:
        """``max_sweeps``, ``method='exact'`` or ``labels=``."""
        if self.value is ...:
            return f"{self.name}="
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class Advice(NamedTuple):
    """The same advice for a caller of Python and for somebody who types commands."""

    python: str
    command: str

    def in_python(self) -> str:
        """The words for a caller of Python."""
        return self.python


Named = Setting | Advice
#: how one front of the program calls a setting
Front = Callable[[Named], str]

#: the fronts that speak now, the innermost last; one process has one, whatever its threads
_fronts: list[Front] = []


@contextmanager
def speaking(front: Front) -> Iterator[None]:
    """While it lasts, messages are said in the words of this front."""
    _fronts.append(front)
    try:
        yield
    finally:
        _fronts.remove(front)


def current_front() -> Front:
    """The front that speaks; a caller of Python where there is no other."""
    return _fronts[-1] if _fronts else lambda named: named.in_python()


class Sentence(str):
    """A text in Python's words that other fronts can say in theirs."""

    pieces: tuple[str | Named, ...]

    def __new__(cls, *pieces: str | Named) -> Sentence:
        flat: list[str | Named] = []
        for piece in pieces:
            flat.extend(piece.pieces if isinstance(piece, Sentence) else (piece,))
        text = "".join(p if isinstance(p, str) else p.in_python() for p in flat)
        made = super().__new__(cls, text)
        made.pieces = tuple(flat)
        return made

    def __getnewargs__(self) -> tuple[str | Named, ...]:  # type: ignore[override]
        return self.pieces

    def __add__(self, other: str) -> Sentence:
        return Sentence(self, other)

    def __radd__(self, other: str) -> Sentence:
        return Sentence(other, self)

    def told(self, front: Front) -> str:
        """The text in the words of a front."""
        return "".join(p if isinstance(p, str) else front(p) for p in self.pieces)


def told(text: str, front: Front) -> str:
    """Any text in the words of a front; plain text stays as it is."""
    return text.told(front) if isinstance(text, Sentence) else text


def counted(n: int, noun: str) -> str:
    """ "1 sweep", "2 sweeps", "3 trajectories"."""
    several = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{n:,} {noun if n == 1 else several}"


def first_few(names: Iterable[object], most: int = 8) -> str:
    """The first names with commas between them, and a sign that there are more."""
    listed = [str(name) for name in names]
    return ", ".join(listed[:most]) + (", …" if len(listed) > most else "")


def quoted(names: Iterable[object], most: int = 12) -> str:
    """The first names, texts in quotes, and how many more there are."""
    listed = [repr(str(name)) if isinstance(name, str) else str(name) for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def joined(between: str, sentences: Iterable[str]) -> Sentence:
    """As ``between.join(sentences)``, and settings stay settings."""
    pieces: list[str] = []
    for sentence in sentences:
        pieces += [between, sentence] if pieces else [sentence]
    return Sentence(*pieces)


class AsterismError(ValueError):
    """Base of every error that is the input's fault rather than the program's.

    ``what`` is wrong (text and settings, one after the other), ``where`` (a file, row, node), which
    values are ``valid``, and the ``remedy``; the last three may be left out, or be part of
    ``what``.
    """

    def __init__(
        self, *what: str | Named, where: str = "", valid: str = "", remedy: str = ""
    ) -> None:
        self.what, self.where, self.valid, self.remedy = Sentence(*what), where, valid, remedy
        super().__init__(composed(self.what, where, valid, remedy))

    @property
    def sentence(self) -> Sentence:
        """The whole message, ready for any front."""
        return Sentence(self.args[0]) if self.args else Sentence("")


def composed(what: str, where: str = "", valid: str = "", remedy: str = "") -> Sentence:
    """One sentence of the parts: "where: what; valid are …; remedy"."""
    begin = [f"{where}: "] if where else []
    end = [part for text in (valid, remedy) if text for part in ("; ", text)]
    return Sentence(*begin, what, *end)


class DataError(AsterismError):
    """The measurements are malformed, contradictory or impossible under the model."""


class ModelError(AsterismError):
    """The network, its rates or an emission is malformed or does not fit the data."""


def require_one_of(name: str, value: object, valid: Iterable[object]) -> None:
    """Refuse a setting that is none of these."""
    known = list(valid)
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise ModelError(Setting(name), f" is {value!r}; valid are {listed}.")


def require_whole(name: str, value: Any, least: int = 1, whose: str = "") -> int:
    """A setting that is a whole number, or an error."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        text = f"{whose} must be a whole number ≥ {least}, got {value!r}."
        raise ModelError(Setting(name), text)
    return int(value)


def require_positive(name: str, value: Any) -> None:
    """Refuse a setting that is not above zero; None leaves it open."""
    if value is not None and not value > 0.0:
        raise ModelError(Setting(name), f" must be positive, got {value!r}.")


def require_known(
    names: Iterable[object],
    known: Collection[Any],
    says: str,
    noun: str = "node",
    error: Callable[[Sentence], Exception] = ModelError,
) -> None:
    """Refuse the first name that is none of the known ones; ``says`` begins the sentence."""
    for name in names:
        if str(name) not in known:
            listed = f"which is not a {noun}; the {noun}s are {quoted(known)}."
            raise error(Sentence(says, f" {str(name)!r}, {listed}"))


class TooLargeError(AsterismError):
    """The request would need more states, memory or time than a stated limit."""
