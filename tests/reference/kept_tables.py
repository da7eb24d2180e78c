"""Tables of pages whose first columns come from the code, and whose last ones, which explain, are written in the page and kept.

A table stands after a comment ``<!-- KIND NAME -->``. `make reference` writes the first columns again, adds rows and removes
others; a new row has empty cells, with which a test fails until somebody writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

Rows = Iterable[Sequence[str]]


def split_row(line: str) -> list[str]:
    """The cells of a line of a table; a bar in a cell is written as ``\\|``."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def find_tables(kind: str, text: str) -> list[tuple[str, list[list[str]]]]:
    """The name and the rows, without the head, of each table of a kind."""
    return [(found[1], _read_rows(found[2])) for found in _make_pattern(kind).finditer(text)]


def fill_tables(kind: str, text: str, head: Sequence[str], kept: int, make_rows: Callable[[str], Rows]) -> str:
    """The page with the rows that `make_rows` returns for each name: the cells before the last `kept`, which stay.

    A row is known by its first cell.
    """

    def fill(found: re.Match[str]) -> str:
        written = {row[0]: row[-kept:] for row in _read_rows(found[2])}
        rows = [[*row, *written.get(row[0], [""] * kept)] for row in make_rows(found[1])]
        lines = [_join_row(head), "|" + "---|" * len(head), *map(_join_row, rows)]
        return f"<!-- {kind} {found[1]} -->\n\n" + "\n".join(lines) + "\n"

    return _make_pattern(kind).sub(fill, text)


def _make_pattern(kind: str) -> re.Pattern[str]:
    return re.compile(rf"^<!-- {kind} (\S+) -->\n\n((?:\|[^\n]*\n)*)", re.M)


def _read_rows(table: str) -> list[list[str]]:
    return [split_row(line) for line in table.splitlines()[2:]]


def _join_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
