"""Opens table files: compressed or not, text or a workbook, however it is separated.

The result is always a table of text cells, as they stand in the file. Cells that a spreadsheet
would run as a formula (they begin with =, +, −, @, a tab or a return) are written with an
apostrophe in front and read back without it. Numbers stay as they are. A text that begins with
apostrophes and then such a character gets one more, so that reading takes away exactly what writing
added.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from asterism.data.measurements import objects
from asterism.data.numbers import StoredNumber, as_number
from asterism.errors import AsterismError, DataError, Setting, TooLargeError

#: a header, and so a line without any end, may be this long
LONGEST_HEADER = 4_000_000

#: cells are read as text first, which takes about this many bytes for one byte of the file
BYTES_PER_BYTE = 15

#: rows that Excel allows, and the bytes that a cell of a sheet takes here
LONGEST_SHEET = 1_048_576
BYTES_PER_CELL = 150

_NO_NAME = re.compile(r"(Unnamed: ?\d+)?")
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ZIP = b"PK\x03\x04"
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"


def read_text_table(path: str | Path, sheet: str | None = None) -> pd.DataFrame:
    """A table of text cells; BOM, CRLF, UTF-16, compression and workbooks are fine.

    Duplicate column names are kept, so that they can be reported. An unnamed first column that
    only counts the rows is left out.
    """
    numbered = text_rows(Path(path), sheet)
    lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
    names = [unescape_cell(name.strip()) for name in rows[0]]
    while names and not names[-1]:
        names.pop()  # a trailing separator makes an empty last column
    for number, row in numbered[1:]:
        if any("\n" in cell or "\r" in cell for cell in row):
            raise DataError(
                f"{str(path)!r}, row {number}: a cell in quotes runs over several lines; "
                "is a quotation mark not closed?"
            )
        if any(cell.strip() for cell in row[len(names) :]) or len(row) < len(names):
            raise DataError(
                f"{str(path)!r}, row {number}: {len(row)} cells, but the header has {len(names)}"
            )
    body = [[_cell(cell) for cell in row[: len(names)]] for row in rows[1:]]
    frame = pd.DataFrame(body, columns=range(len(names)), dtype=object)
    frame.columns = pd.Index(names)
    if lines[1:] != list(range(2, len(rows) + 1)):
        frame.attrs["lines"] = lines[1:]
    return _without_index(frame, path)


def read_header(path: Path, sheet: str | None = None) -> list[str]:
    """The names of the columns, from the beginning of the file alone."""
    return [unescape_cell(c.strip()) for c in first_rows(path, sheet, limit=1)[0] if c.strip()]


def first_rows(path: Path, sheet: str | None = None, limit: int = 50) -> list[list[str]]:
    """The header and some rows below it, from the beginning of the file alone."""
    return [cells for _, cells in text_rows(path, sheet, limit)]


def sheet_names(path: Path) -> list[str]:
    """The sheets of a workbook; none for other files."""
    with path.open("rb") as file:
        if not file.read(4).startswith(_ZIP):
            return []
    with _workbook(path) as book:
        return [str(name) for name in book.sheetnames]


def too_large(path: Path, size: float, available: float) -> TooLargeError:
    """The error that refuses a table of ``size`` bytes, with the numbers."""
    needed = size * BYTES_PER_BYTE
    return TooLargeError(
        f"{str(path)!r} has {size / 1e9:.2f} GB; reading it would take about "
        f"{needed / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are free. Keep fewer "
        "columns or trajectories."
    )


# ---- bytes and text -------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The content, decompressed."""
    try:
        with path.open("rb") as file:
            beginning = file.read(6)
    except FileNotFoundError:
        raise DataError(f"there is no file {str(path)!r}") from None
    opener = next((o for magic, o in _OPENERS.items() if beginning.startswith(magic)), open)
    try:
        with opener(path, "rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{str(path)!r} cannot be decompressed: {error}.") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise DataError(f"{str(path)!r} cannot be decompressed: {error}.") from None  # bz2


def _whole(file: IO[bytes], path: Path) -> bytes:
    """All of a file, as long as it fits into memory once it is decompressed."""
    from asterism.numerics.resources import available_bytes

    most = 0.8 * available_bytes() / BYTES_PER_BYTE
    pieces, size = [], 0
    while piece := file.read(1 << 24):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise too_large(path, size, available_bytes())
    return b"".join(pieces)


def _decoded(content: bytes, path: Path, is_cut: bool) -> str:
    """The text; of a beginning that ends anywhere, only its whole lines."""
    if not content:
        raise DataError(f"{str(path)!r} is empty: it has 0 bytes.")
    if content.startswith(_OLD_EXCEL):
        raise DataError(
            f"{str(path)!r} is a workbook of an old Excel; save it as .xlsx or as CSV UTF-8."
        )
    coding = "utf-16" if content.startswith(_UTF16) else "utf-8-sig"
    if b"\0" in content and coding != "utf-16":
        raise DataError(f"{str(path)!r} is not a text file: byte {content.index(0)} is zero.")
    try:
        # a decoder that waits for the rest of a character that is cut
        text = codecs.getincrementaldecoder(coding)().decode(content, final=not is_cut)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(path)!r} is not UTF-8 text (byte {error.start}); save it as CSV UTF-8."
        ) from None
    if not text.strip():
        raise DataError(f"{str(path)!r} is empty: it holds only blank lines.")
    if not is_cut:
        return text
    whole = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    if not whole.strip():
        raise DataError(
            f"{str(path)!r} is not a table: its first line is longer than "
            f"{LONGEST_HEADER:,} characters."
        )
    return whole


def text_rows(
    path: Path, sheet: str | None = None, limit: int | None = None
) -> list[tuple[int, list[str]]]:
    """The rows that hold anything, each with its line, as they stand in the file.

    With a limit there are no more than that, and only the beginning of the file is read.
    """
    with _opened(path) as file:
        content = _whole(file, path) if limit is None else file.read(LONGEST_HEADER)
    if content.startswith(_ZIP):
        sheet_rows = list(_sheet_rows(path, sheet, limit))
        if not sheet_rows:
            raise DataError(f"{str(path)!r} is empty: no sheet holds anything.")
        width = max(len(row) for _, row in sheet_rows)
        return [(line, row + [""] * (width - len(row))) for line, row in sheet_rows]
    text = _decoded(content, path, is_cut=limit is not None and len(content) == LONGEST_HEADER)
    header = next(line for line in text.splitlines() if line.strip())
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count))
    try:
        given = ((rows.line_num, row) for row in rows if len(row) > 1 or "".join(row).strip())
        return list(islice(given, limit))
    except csv.Error as error:
        raise DataError(f"{str(path)!r}, line {rows.line_num}: {error}.") from None


def _without_index(frame: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """Without a first column that only counts the rows; other columns must have a name."""
    if len(frame.columns) and _NO_NAME.fullmatch(frame.columns[0]):
        first = frame.iloc[:, 0].tolist()
        if any(first == [str(i + k) for i in range(len(first))] for k in (0, 1)):
            rest = frame.iloc[:, 1:]
            rest.attrs["counted"] = True  # said by who reads the cells
            return rest
    if "" in frame.columns:
        place = list(frame.columns).index("") + 1
        raise DataError(f"{str(path)!r}: column {place} has no name; give it one in the header.")
    return frame


# ---- workbooks ------------------------------------------------------------------------------


@contextmanager
def _workbook(path: Path, results: bool = True) -> Iterator[Any]:
    """A workbook with the results of its formulas, or with the formulas themselves."""
    import openpyxl  # type: ignore[import-untyped, unused-ignore]

    unreadable = DataError(
        f"{str(path)!r} is a zip archive, but not a workbook of Excel that can be read; "
        "save the table as CSV UTF-8."
    )
    with path.open("rb") as file:
        try:
            _require_unpacked_size(path, file)
            book = openpyxl.load_workbook(file, read_only=True, data_only=results)
        except (AsterismError, MemoryError):
            raise
        except Exception:  # whatever a broken archive makes it raise
            raise unreadable from None
        try:
            yield book
        except (AsterismError, MemoryError):
            raise
        except Exception:  # sheets are read, and may turn out to be broken, only now
            raise unreadable from None
        finally:
            book.close()


def _require_unpacked_size(path: Path, file: IO[bytes]) -> None:
    """Refuse a small archive that unpacks into more than there is room for."""
    from asterism.numerics.resources import available_bytes

    with zipfile.ZipFile(file) as archive:
        size = sum(part.file_size for part in archive.infolist())  # no more than this is unpacked
    file.seek(0)
    if size * BYTES_PER_BYTE > 0.8 * available_bytes():
        raise too_large(path, size, available_bytes())


#: how a cell with a formula begins in the XML of a sheet
_FORMULA = re.compile(rb"<f[ >]")


def _require_results(path: Path, sheet: str) -> None:
    """Refuse formulas whose results are not in the file: their cells would look not measured.

    Spreadsheet programs store results; programs that only write workbooks do not.
    """
    with zipfile.ZipFile(path) as archive:
        parts = [p for p in archive.namelist() if p.startswith("xl/worksheets/")]
        if not any(_FORMULA.search(archive.read(p)) for p in parts):
            return
    with _workbook(path, results=False) as formulas, _workbook(path) as results:
        for written, stored in zip(formulas[sheet].iter_rows(), results[sheet].iter_rows()):
            for cell, result in zip(written, stored):
                if result.value is None and cell.data_type == "f":
                    raise DataError(
                        f"{str(path)!r}: the cell {cell.coordinate} of the sheet {sheet!r} holds a "
                        "formula without its result. Open the workbook in a spreadsheet program "
                        "and save it again, or save the sheet as CSV UTF-8."
                    )


def _sheet_rows(
    path: Path, sheet: str | None, limit: int | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a sheet as text, each with its number; without a name, of the first sheet that
    holds anything."""
    from asterism.numerics.resources import available_bytes

    with _workbook(path) as book:
        if sheet is not None and sheet not in book.sheetnames:
            raise DataError(
                f"{str(path)!r} has no sheet {sheet!r}; name one of ",
                *(", ".join(map(repr, book.sheetnames)), " with "),
                *(Setting("sheet"), "."),
            )
        most = 0.8 * available_bytes() / BYTES_PER_CELL
        for name in [sheet] if sheet is not None else book.sheetnames:
            given = 0
            page = book[name]
            if not hasattr(page, "iter_rows"):  # a chart
                continue
            page.reset_dimensions()  # what the sheet says of its size need not be true
            _require_results(path, name)
            n_cells = 0
            for number, row in enumerate(page.iter_rows(values_only=True)):
                n_cells += len(row)
                if number >= LONGEST_SHEET or n_cells > most:
                    raise TooLargeError(
                        f"The sheet {name!r} of {str(path)!r} is too large: it has cells as far as "
                        f"row {number + 1:,}, column {len(row):,}. Delete what lies far from the "
                        "table, or save it as CSV UTF-8."
                    )
                cells = [_as_text(value) for value in row]
                if any(cells):
                    given += 1
                    yield number + 1, cells
                    if given == limit:
                        return
            if given:
                return


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return StoredNumber(int(value))
    return StoredNumber(value) if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text if isinstance(text, StoredNumber) else unescape_cell(text.strip())


# ---- cells that a spreadsheet would run -----------------------------------------------------


_RISKY = r"[=+\-@\t\r\u2212]"
_TO_ESCAPE = re.compile(rf"'*{_RISKY}")
_ESCAPED = re.compile(rf"'+{_RISKY}")


def escape_cell(value: Any) -> Any:
    """A text that a spreadsheet might run, as one that it shows; anything else as it is."""
    if isinstance(value, str) and _TO_ESCAPE.match(value) and not _is_plain_number(value):
        return "'" + value
    return value


def _is_plain_number(text: str) -> bool:
    number = as_number(text) if text.isascii() and text == text.strip() else None
    return number is not None and math.isfinite(number)


def unescape_cell(text: str) -> str:
    """The inverse of :func:`escape_cell`."""
    return text[1:] if _ESCAPED.match(text) else text


def escaped(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names and texts that no spreadsheet runs."""
    return _with_texts(table, escape_cell)


def unescaped(table: pd.DataFrame) -> pd.DataFrame:
    """A table of texts as it was before it was written."""
    return _with_texts(table, lambda v: unescape_cell(v) if isinstance(v, str) else v)


def _with_texts(table: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    result = table.copy()
    result.columns = pd.Index(list(map(change, table.columns)))
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            result.isetitem(place, objects(map(change, table.iloc[:, place])))
    return result
