"""CSV files for spreadsheets: the one function that writes them."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable
from decimal import Decimal

FORMULA_MARKS = frozenset("=+-@\N{MINUS SIGN}")
_LINE_MARKS = ("\t", "\r", "\n")
_LONGEST_START = 1000


def render_csv(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table with a line of headings. No spreadsheet interprets one of its texts as a formula; None is an empty
    cell.
    """
    return _write_rows([list(columns)]) + render_csv_rows(rows)


def render_csv_rows(rows: Iterable[Iterable[object]]) -> str:
    """Return the lines of a table without its headings, with the same rules."""
    return _write_rows([[format_cell(cell) for cell in row] for row in rows])


def _write_rows(rows: Iterable[Iterable[object]]) -> str:
    output = io.StringIO()
    csv.writer(output).writerows(rows)
    return output.getvalue()


def format_cell(cell: object) -> object:
    """Return the value of a cell: no text is a formula, and no number has an exponent."""
    if isinstance(cell, float):
        return format(Decimal(repr(cell)), "f")
    return quote_cell(cell) if isinstance(cell, str) else cell


def quote_cell(text: str) -> str:
    """Return `text` with a quote before it if a spreadsheet could interpret it as a formula.

    Spreadsheets skip spaces and invisible characters, and some read full-width forms (``＝``) as the ASCII ones.
    """
    return f"'{text}" if text.startswith(_LINE_MARKS) or _find_first_mark(text) in FORMULA_MARKS else text


def _find_first_mark(text: str) -> str:
    """Return the ASCII form of the first visible character of a text, "" if it has none."""
    for character in text[:_LONGEST_START]:
        if unicodedata.category(character)[0] not in "ZCM":
            return unicodedata.normalize("NFKC", character)[:1]
    return "=" if len(text) > _LONGEST_START else ""
