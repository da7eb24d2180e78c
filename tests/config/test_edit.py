"""A plugin is switched in the text of conf: one value changes, every other byte stays."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.config import source
from tornado_gate.config.edit import EditRefused, make_lines, set_plugin
from tornado_gate.config.yaml_edit import Edit, apply_edits

FILE = """\
# the file of é 😀
server: {port: 0}          # any

plugins:                   # on or off
  local: true
  'openai': false            # needs a key

  # a comment about redact
  redact:                  # a wrapper
    # its mark
    mark: "***"
    models: ["gpt-*"]
  # the last comment

providers:
  local: {plugin: local, api_key: sk-secret-of-a-provider}
"""


def read(text: str) -> Any:
    return source.parse(text.removeprefix("\ufeff"), Path("f")).values


def list_changes(old: str, new: str) -> list[str]:
    """The changed lines, with their ends."""
    lines = difflib.ndiff(old.splitlines(keepends=True), new.splitlines(keepends=True))
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize(
    ("name", "on", "changes"),
    [
        ("local", False, ["-   local: true\n", "+   local: false\n"]),
        (
            "openai",
            True,
            ["-   'openai': false            # needs a key\n", "+   'openai': true            # needs a key\n"],
        ),
        ("redact", False, ["+     on: false\n"]),
        ("new", True, ["+   new: true\n"]),
        ("odd name: #", True, ['+   "odd name: #": true\n']),
        ("format-openai", False, ["+   format-openai: false\n"]),
        ("format-openai", True, []),
        ("new", False, []),
        ("local", True, []),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_one_line_changes(name: str, on: bool, changes: list[str], newline: str, mark: str) -> None:
    old = mark + FILE.replace("\n", newline)
    assert list_changes(old, set_plugin(old, name, on=on)) == [change.replace("\n", newline) for change in changes]


def test_a_new_entry_follows_the_last_one_and_precedes_the_comments_behind_it() -> None:
    assert '["gpt-*"]\n  new: true\n  # the last comment' in set_plugin(FILE, "new", on=True)


def test_an_option_on_follows_the_name_of_its_plugin() -> None:
    assert "# a wrapper\n    on: false\n    # its mark" in set_plugin(FILE, "redact", on=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "plugins:\n  p: true\n"),
        ("# only a comment", "# only a comment\nplugins:\n  p: true\n"),
        ("server: {port: 1}\r\n", "server: {port: 1}\r\nplugins:\r\n  p: true\r\n"),
        ("plugins:\n  # p: true\nkeys: []\n", "plugins:\n  p: true\n  # p: true\nkeys: []\n"),
        ("plugins:", "plugins:\n  p: true"),
        ("plugins:\n  a: false", "plugins:\n  a: false\n  p: true"),
        ("plugins: {p: off}  # x\n", "plugins: {p: true}  # x\n"),
        ("plugins:\n  p: {on: no, mark: '*'}\n", "plugins:\n  p: {on: true, mark: '*'}\n"),
        ("  plugins:\n      a: true\n", "  plugins:\n      a: true\n      p: true\n"),
        ("  server: {port: 1}\n", "  server: {port: 1}\n  plugins:\n    p: true\n"),
        (
            "plugins:\n  a:\n    text: |\n      one\n\n      two\n# end\n",
            "plugins:\n  a:\n    text: |\n      one\n\n      two\n  p: true\n# end\n",
        ),
        ("plugins: {a: true}  # x\n", "plugins: {a: true, p: true}  # x\n"),
        ("plugins: {}  # none\nkeys: []\n", "plugins:   # none\n  p: true\nkeys: []\n"),
        ("a: 1\n...\n", "a: 1\nplugins:\n  p: true\n...\n"),
        ("x: &x {a: 1}\nplugins:\n  a: *x\n", "x: &x {a: 1}\nplugins:\n  a: *x\n  p: true\n"),
    ],
)
def test_a_plugin_is_switched_on(old: str, new: str) -> None:
    assert set_plugin(old, "p", on=True) == new


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{plugins: {a: true}}\n", "flow style"),
        ("{server: {}}\n", "flow style"),
        ("plugins:\n  p: ${ON:-false}\n", "comes from the environment"),
        ("plugins:\n  p: 0\n", "not written as true or false"),
        ("plugins:\n  p: &p false\n  q: *p\n", "not written as true or false"),
        ("plugins:\n  a: &p\n    on: false\n  p: *p\n", "anchors and aliases"),
        ("x: &s false\nplugins:\n  p: *s\n", "not written as true or false"),
        ("plugins: [p]\n", "not a mapping"),
        ("- a\n", "not a mapping"),
        ("plugins:\n  p: true\n  p: true\n", "occurs twice"),
        ("plugins: [\n", "is not valid YAML"),
        ("plugins:\n\tp: true\n", "spaces, never with tabs"),
        ("a: 1\n---\nb: 1\n", "not valid"),
        ("a" * (1024 * 1024 + 1), "longer than"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str, why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        set_plugin(text, "p", on=True)


def test_the_lines_for_a_person_do_the_same() -> None:
    assert read(make_lines("a: b", on=True)) == {"plugins": {"a: b": True}}


NAMES = st.sampled_from(["a", "b-c", "on", "null", "x y", "é", "#", "'", '"', "1", "a: b", "&a", "*", "😀"])
COMMENTS = st.sampled_from(["", "   # text: {", " # é 'x"])
ENTRIES = st.sampled_from(
    ["true", "false", "yes", "OFF", "{on: true}", '{on: no, mark: "}"}', "{mark: x}", "\n    mark: x"]
)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Files with a section of plugins between others."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = ["# head", "server: {port: 1}"] if draw(st.booleans()) else []
    lines.append("plugins:" + draw(COMMENTS))
    for name in draw(st.lists(NAMES, unique=True, min_size=0, max_size=5)):
        quoted = "'" + name.replace("'", "''") + "'"
        lines += draw(st.lists(st.sampled_from(["", "  # comment", "# comment"]), max_size=2))
        lines += f"  {quoted}: {draw(ENTRIES)}{draw(COMMENTS)}".split("\n")
    lines += draw(st.sampled_from([[], ["", "keys: []"], ["# tail", "models: {}  # x"]]))
    ending = newline if draw(st.booleans()) else ""
    return draw(st.sampled_from(["", "\ufeff"])) + newline.join(lines) + ending


@given(files(), NAMES, st.booleans())
def test_an_edit_changes_one_switch_and_is_idempotent(text: str, name: str, on: bool) -> None:
    try:
        edited = set_plugin(text, name, on=on)
    except EditRefused as refused:
        assert "flow style" in str(refused)
        return
    before, after = read(text), read(edited)
    entry = (after["plugins"] or {}).get(name, False)
    assert (entry.get("on", True) if isinstance(entry, dict) else entry) is on
    for values in (before, after):
        values["plugins"] = {key: value for key, value in (values["plugins"] or {}).items() if key != name}
    assert before == after
    assert set_plugin(edited, name, on=on) == edited
    assert len(list_changes(text, edited)) <= 3
    assert "\r\n" not in text or "\n" not in edited.replace("\r\n", "")


SHIPPED = "plugins:\n  p: false\nproviders:\n  a: {plugin: p}\n# the end\n"
PASTED = "plugins:\n  p: true\nproviders:\n  b:\n    plugin: p\nmodels: {m: {provider: b}}\n"


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (Edit(path=("plugins", "p"), value=False), "  p: true\nproviders:\n  b", "  p: false\nproviders:\n  b"),
        (Edit(path=("providers", "b", "base_url"), value="x"), "    plugin: p\n", "    plugin: p\n    base_url: x\n"),
        (Edit(path=("providers", "a", "base_url"), value="x"), "{plugin: p}", "{plugin: p, base_url: x}"),
        (
            Edit(path=("providers", "b"), value=None, removes=True),
            "providers:\n  b:\n    plugin: p\n",
            "providers: {}\n",
        ),
    ],
)
def test_a_section_that_is_there_twice_is_edited_where_the_entry_is(edit: Edit, old: str, new: str) -> None:
    text = SHIPPED + PASTED
    assert apply_edits(text, [edit]) == text.replace(old, new)
