"""No export has a cell that a spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest

from tests.support.admin_console import AdminConsole, serve_console
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.server.admin.csv_cells import quote_cell, render_csv

MARKS = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "﹦", "﹢", "﹣", "﹫", "−", "⁼", "⁺")
SPACES = ("", " ", "\t", "\r", "\n", "\xa0", "\u3000", "\u200b", "\ufeff", "\u00ad", "\x00", " \t \u2003")


def test_every_form_of_a_formula_is_quoted_and_other_texts_are_not() -> None:
    for space in SPACES:
        for mark in MARKS:
            text = f"{space}{mark}cmd|' /C calc'!A0"
            assert quote_cell(text) == f"'{text}", ascii(text)
    assert quote_cell("\tplain") == "'\tplain"
    assert quote_cell(" " * 5000 + "=1").startswith("'")
    for text in ("", " ", "fine", " fine", "gpt-4o", "a=b", "ann@example.org", "１２", "#1", "ü", "{}"):
        assert quote_cell(text) == text, text
    table = render_csv(["a", "b", "c"], [["＝1+1", -1.5, None], ["x", 2e-05, 9.7e-06]])
    cells = list(csv.reader(io.StringIO(table)))
    assert cells == [["a", "b", "c"], ["'＝1+1", "-1.5", ""], ["x", "0.00002", "0.0000097"]]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("csv")) as served:
        yield served


@pytest.mark.parametrize("mark", ["=", "＝", "＋", "＠", "－", " \t＝"])
def test_every_export_quotes_formulas(console: AdminConsole, mark: str) -> None:
    text = f"{mark}1+1"
    name = f"{mark.strip()}1+1"
    root, key = KeyStore(console.services.database).create(name, role="administrator")
    console.add_request(f"req-{ord(mark[-1])}-{len(mark)}", model=text, key=key.id)
    console.services.accounts.users.set_name(console.users["lead"].id, name, console.actor)
    exports = {
        "/console/usage.csv?whose=all&group=model": {},
        "/console/usage.csv?whose=all&group=key": {},
        "/console/audit.csv": {},
        "/admin/v1/usage?format=csv&group_by=model,key": {"Authorization": f"Bearer {root}"},
    }
    for path, headers in exports.items():
        response = console.send("GET", path, **headers)
        assert response.code == 200, response.body
        rows = list(csv.reader(io.StringIO(response.body.decode(), newline="")))
        cells = [cell for row in rows[1:] for cell in row]
        assert not [cell for cell in cells if cell.strip()[:1] in MARKS], path
        if "group=" in path or "group_by" in path:
            assert any(cell in (f"'{text}", f"'{name}") for cell in cells), (path, cells)
