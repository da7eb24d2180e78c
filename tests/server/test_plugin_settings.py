"""Settings of a plugin as text: secrets are masked, a mask keeps the secret, and what is taken away is removed."""

from __future__ import annotations

import pytest

from tornado_gate.config.entry_edits import PluginChange
from tornado_gate.config.yaml_edit import EditRefused
from tornado_gate.errors import InvalidField
from tornado_gate.server.plugin_settings import LONGEST_TEXT, parse_settings, render_settings

MEMBERS = {
    "mark": "###",
    "keys": ["ci", "night"],
    "headers": {"authorization": "Bearer 0123456789abcdef", "x-team": "science"},
    "token": "${OTEL_TOKEN}",
    "hosts": ["https://ada:pass@example.org", "https://example.org"],
}
FILE = "plugins:\n  redact: true   # a guard\n  cache: ${CACHE:-false}\n  otel: {on: false, sample: 0.5}\n"


def test_secrets_are_masked_and_references_are_not() -> None:
    text = render_settings(MEMBERS)
    assert text == (
        'mark: "###"\nkeys: [ci, night]\nheaders: {authorization: "***", x-team: science}\n'
        'token: "${OTEL_TOKEN}"\nhosts: ["***", "https://example.org"]\n'
    )


def test_a_text_as_it_was_shown_changes_nothing() -> None:
    assert parse_settings(render_settings(MEMBERS), MEMBERS) == {}


def test_a_mask_keeps_the_secret_beside_a_change() -> None:
    text = render_settings(MEMBERS).replace("science", "physics").replace("keys: [ci, night]\n", "")
    assert parse_settings(text, MEMBERS) == {
        "headers": {"authorization": "Bearer 0123456789abcdef", "x-team": "physics"},
        "keys": None,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("- a", "not a mapping"),
        ("on: true", "by its switch"),
        ("x" * (LONGEST_TEXT + 1), "longer than"),
    ],
)
def test_a_text_that_is_no_mapping_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidField, match=message):
        parse_settings(text, MEMBERS)


def test_the_entry_of_the_file_keeps_its_switch_and_its_comment() -> None:
    edited = PluginChange(plugin="redact", members={"mark": "#", "gone": None}).edit_text(FILE)
    assert '  redact: {on: true, mark: "#"}   # a guard\n' in edited
    edited = PluginChange(plugin="otel", members={"sample": None}, on=True).edit_text(FILE)
    assert "  otel: {on: true}\n" in edited
    assert PluginChange(plugin="otel", members={"sample": 0.5}).edit_text(FILE) == FILE
    assert PluginChange(plugin="redact", members={}, on=True).edit_text(FILE) == FILE


def test_a_switch_of_the_environment_is_left_to_it() -> None:
    with pytest.raises(EditRefused, match="environment"):
        PluginChange(plugin="cache", members={"keep_seconds": 60}).edit_text(FILE)


def test_a_plugin_that_the_file_does_not_name_stays_off() -> None:
    edited = PluginChange(plugin="new", members={"mark": "x"}).edit_text(FILE)
    assert "  new: {on: false, mark: x}\n" in edited
