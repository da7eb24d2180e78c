"""Cells of CSV files that people open in spreadsheets."""

from __future__ import annotations

FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r", "\n")


def quote_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA_MARKS) else text
