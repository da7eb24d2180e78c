"""Provider entries and models are added, changed and removed in the text of conf: everything else stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate import config as conf
from tornado_gate.config.entry_edits import EntryAddition, EntryChange, EntryRemoval
from tornado_gate.config.yaml_edit import Edit, EditRefused, apply_edits, read_text
from tornado_gate.errors import GateError, NotFound, RequestError

DELIVERED = Path(__file__).parents[2] / "conf" / "gate.yaml"
FILE = """\
plugins:
  local: true
  openai: false                # true requires a key
providers:
  local: {plugin: local}
  openai:                      # off while its plugin is off
    plugin: openai
    base_url: https://api.openai.com/v1    # the vendor
    api_key: ${NO_SUCH_VARIABLE}
    timeouts: {connect: 5}     # seconds
  other: {plugin: openai, preset: groq, api_key: "${NO_SUCH_VARIABLE}"}
models:
  local-chat: {provider: local}
  gpt-4o: {provider: openai}   # a vendor's
defaults: {chat: local-chat}
"""


def test_a_new_entry_leaves_the_other_entries_of_its_plugin_off() -> None:
    step = EntryAddition(section="providers", name="mine", entry={"plugin": "openai", "base_url": "http://127.0.0.1:9"})
    edited = step.edit_text(FILE)
    assert edited == FILE.replace("openai: false  ", "openai: true  ").replace(
        "5}     # seconds\n", "5}     # seconds\n    on: false\n"
    ).replace(
        '"${NO_SUCH_VARIABLE}"}\n',
        '"${NO_SUCH_VARIABLE}", on: false}\n  mine: {plugin: openai, base_url: "http://127.0.0.1:9"}\n',
    )
    config = conf.load(Path("gate.yaml"), {}, text=edited)
    assert sorted(config.providers) == ["local", "mine"]
    assert dict(config.inactive)["models", "gpt-4o"] == "its provider 'openai' is off"
    replaced = EntryAddition(section="models", name="gpt-4o", entry={"provider": "mine"}).edit_text(edited)
    assert "  gpt-4o: {provider: mine}   # a vendor's\n" in replaced


def test_an_entry_that_is_off_is_filled_in_and_keeps_its_other_keys() -> None:
    step = EntryAddition(section="providers", name="openai", entry={"plugin": "openai", "api_key": "${secret:k}"})
    edited = step.edit_text(FILE)
    assert '    base_url: https://api.openai.com/v1    # the vendor\n    api_key: "${secret:k}"\n' in edited
    assert "    timeouts: {connect: 5}     # seconds\n" in edited
    model = EntryAddition(section="models", name="gpt-4o", entry={"provider": "openai"}, may_exist=True)
    assert model.edit_text(edited) == edited
    with pytest.raises(RequestError, match="already"):
        EntryAddition(section="models", name="gpt-4o", entry={"provider": "openai"}).edit_text(edited)


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "kling", "mine"])
def test_the_delivered_file_takes_every_vendor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = DELIVERED.read_text(encoding="utf-8")
    plugin = "openai" if name == "mine" else name
    entry = {"plugin": plugin, "api_key": "a-key-of-these-tests", "base_url": "http://127.0.0.1:9"}
    edited = EntryAddition(section="providers", name=name, entry=entry).edit_text(text)
    edited = EntryAddition(section="models", name="new-model", entry={"provider": name}).edit_text(edited)
    config = conf.load(DELIVERED, {}, text=edited)
    assert config.providers[name].api_key == "a-key-of-these-tests"
    assert config.models["new-model"].targets[0].provider == name
    for comment in ("# accounts at upstreams: plugin, URL and key", "# upstream model: the whole name"):
        assert comment in edited


def test_members_are_set_and_removed() -> None:
    members = {"base_url": None, "headers": {"a": "b"}, "timeouts": {"total": 9}, "gone": None}
    edited = EntryChange(section="providers", name="openai", members=members).edit_text(FILE)
    expected = FILE.replace("    base_url: https://api.openai.com/v1    # the vendor\n", "")
    expected = expected.replace("{connect: 5}     # seconds\n", "{total: 9}     # seconds\n    headers: {a: b}\n")
    assert edited == expected
    with pytest.raises(NotFound):
        EntryChange(section="providers", name="none", members=members).edit_text(FILE)


def test_a_name_that_no_address_can_have_is_refused() -> None:
    for name in ("", "a/b", "a b", "é", "x" * 101):
        with pytest.raises(RequestError, match="letters, digits"):
            EntryAddition(section="providers", name=name, entry={"plugin": "local"}).edit_text(FILE)


def test_what_something_needs_is_not_removed() -> None:
    with pytest.raises(GateError, match="the model 'gpt-4o'"):
        EntryRemoval(section="providers", name="openai").edit_text(FILE)
    with pytest.raises(GateError, match=r"defaults\.chat"):
        EntryRemoval(section="models", name="local-chat").edit_text(FILE)
    edited = EntryRemoval(section="models", name="gpt-4o").edit_text(FILE)
    assert edited == FILE.replace("  gpt-4o: {provider: openai}   # a vendor's\n", "")


WORDS = st.sampled_from(["a", "a b", "#", "x: y", "on", "null", "${V}", "é😀", "1", "", "*"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.dictionaries(st.sampled_from(["k", "l m", "on"]), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NAMES = st.sampled_from(["local", "openai", "other", "new", "b/*", "é", "on", "a: b"])
MEMBERS = st.sampled_from(["plugin", "timeouts", "base_url", "x y"])


def get(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        values = values.get(name, {}) if isinstance(values, dict) else {}
    return values


@given(
    st.lists(st.tuples(NAMES, st.none() | MEMBERS, st.booleans(), VALUES), min_size=1, max_size=4),
    st.sampled_from(["providers", "models", "teams"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "...\n"]),
)
def test_any_edit_changes_one_value_and_keeps_the_comments_of_others(
    steps: list[tuple[str, str | None, bool, Any]], section: str, newline: str, end: str
) -> None:
    text = (FILE + end).replace("\n", newline)
    for name, member, removes, value in steps:
        path = (section, name) if member is None else (section, name, member)
        before = read_text(text)
        if removes and member is not None and not isinstance(get(before, path[:2]), dict):
            continue
        try:
            edited = apply_edits(text, [Edit(path=path, value=None if removes else value, removes=removes)])
        except EditRefused as refused:
            assert "is not a mapping" in str(refused) or "only one line" in str(refused), refused
            continue
        after = read_text(edited)
        assert (path[-1] in get(after, path[:-1])) is not removes
        assert removes or get(after, path) == value
        for other in set(before) | set(after) - {section}:
            assert other == section or before.get(other) == after.get(other)
        assert "# true requires a key" in edited
        assert edited.replace("\r\n", "\n") == edited or newline == "\r\n"
        text = edited
