"""``${VAR}`` in conf: what it becomes, what it may be, and when it may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.support import Conf
from tornado_gate.config.environment import EnvironmentText, fill

NOT_SET = "the environment variable NONE is not set; set it, or write ${NONE:-default}"

REFERENCES = [
    ("${A}", "one"),
    ("<${A}-${B}>", "<one-two>"),
    ("${NONE:-default}", "default"),
    ("${EMPTY:-default}", "default"),
    ("${EMPTY}", ""),
    ("${NONE:-}", ""),
    ("${NONE:-a:-b}", "a:-b"),
    ("$${A}", "${A}"),
    ("$${${A}", "${one"),
    ("$A {A} $", "$A {A} $"),
    ("${NESTED}", "${A}"),
]
ENVIRONMENT = {"A": "one", "B": "two", "EMPTY": "", "NESTED": "${A}"}


@pytest.mark.parametrize(("text", "expected"), REFERENCES)
def test_reference_becomes_what_the_environment_holds(text: str, expected: str) -> None:
    filled = fill({"key": [text]}, ENVIRONMENT)
    assert filled.values == {"key": [expected]}
    assert not filled.unset
    assert not filled.faults


def test_only_what_came_from_the_environment_is_marked() -> None:
    values = fill(["${A}", "$${A}", "A"], ENVIRONMENT).values
    assert [type(value) for value in values] == [EnvironmentText, str, str]


@pytest.mark.parametrize("text", ["${}", "${1A}", "${A-b}", "${A:b}", "${ A }", "${A", "x${"])
def test_malformed_reference_is_a_fault(conf: Conf, text: str) -> None:
    assert conf.report(f"server:\n  host: '{text}'\n", {"A": "x"}) == [
        "FILE:2: server.host: a reference must be ${NAME}, ${NAME:-default}, ${file:PATH} or ${secret:NAME}; "
        "write $${ for a literal ${"
    ]


def test_reference_in_a_key_is_a_fault(conf: Conf) -> None:
    report = conf.report("models:\n  '${NAME}': {targets: [{provider: p}]}\nproviders: {p: {plugin: p}}\n")
    assert report == ["FILE:2: models.${NAME}: a key cannot contain ${...}; only values can"]


def test_every_unset_variable_is_named_with_its_place(conf: Conf) -> None:
    text = """\
server:
  host: ${NONE}
keys:
  - {name: a, key: "${NONE}${OTHER}", models: ["${NONE}"]}
dialect: ${NONE}
"""
    assert conf.report(text) == [
        f"FILE:2: server.host: {NOT_SET}",
        f"FILE:4: keys.0.key: {NOT_SET}",
        "FILE:4: keys.0.key: the environment variable OTHER is not set; set it, or write ${OTHER:-default}",
        f"FILE:4: keys.0.models.0: {NOT_SET}",
        f"FILE:5: dialect: {NOT_SET}",
    ]


def test_whole_file_may_be_one_unset_reference(conf: Conf) -> None:
    assert conf.report("${NONE}") == [f"FILE:1: {NOT_SET}"]


OFF = [
    "providers: {p: {plugin: p, api_key: '${NONE}', extra: ['${NONE}']}}",
    "providers: {p: {plugin: p, timeouts: {total: '${NONE}'}, headers: {A: '${NONE}'}}}",
    "providers: {p: {plugin: p}}\nmodels: {m: {provider: p, display_name: '${NONE}', operations: ['${NONE}']}}",
    "keys: [{name: a, key: '', account: '${NONE}', models: ['${NONE}']}]",
]


@pytest.mark.parametrize("text", OFF)
def test_unset_variable_is_no_fault_where_what_uses_it_is_off(conf: Conf, text: str) -> None:
    assert conf.report(text) == []


def test_unset_variable_is_a_fault_once_the_plugin_is_on(conf: Conf) -> None:
    text = f"plugins: {{p: true}}\n{OFF[0]}"
    assert conf.report(text) == [f"FILE:2: providers.p.api_key: {NOT_SET}", f"FILE:2: providers.p.extra.0: {NOT_SET}"]


def test_unset_variable_in_a_target_that_is_off_is_no_fault(conf: Conf) -> None:
    loaded = conf.load("""\
plugins: {one: true}
providers: {a: {plugin: one}, b: {plugin: two}}
models: {m: {targets: [{provider: a}, {provider: b, model: "${NONE}"}]}}
""")
    assert [target.provider for target in loaded.models["m"].targets] == ["a"]


def test_value_of_the_environment_takes_the_type_of_its_key(conf: Conf) -> None:
    text = """\
server: {port: "${PORT}", access_log: "${LOG}", drain_seconds: "${DRAIN}", data_dir: "${HOME}/var"}
plugins: {p: "${ON}"}
"""
    environment = {"PORT": "9000", "LOG": "False", "DRAIN": "1.5", "HOME": "/home/x", "ON": "yes"}
    loaded = conf.load(text, environment)
    assert (loaded.server.port, loaded.server.access_log, loaded.server.drain_seconds) == (9000, False, 1.5)
    assert str(loaded.server.data_dir) == "/home/x/var"
    assert type(loaded.server.host) is str
    assert loaded.plugins == {"p": True}


def test_default_takes_the_type_of_its_key_too(conf: Conf) -> None:
    assert conf.load("server: {port: '${NONE:-81}'}").server.port == 81


WRONG = [
    ("port", "secret-value", "must be an integer, not the value from the environment"),
    ("port", "99999", "must be from 0 to 65535, not the value from the environment"),
    ("port", "", "must be an integer, not an empty value from the environment"),
    ("port", "1_0", "must be an integer, not the value from the environment"),
    ("access_log", "secret-value", "must be true or false, not the value from the environment"),
    (
        "drain_seconds",
        "nan",
        "must be a number of seconds, or a duration such as 5m, not the value from the environment",
    ),
    ("hook_seconds", "0", "must be more than 0 and at most 86400 seconds, not the value from the environment"),
    ("log_level", "secret-value", "must be 'debug', 'info', 'warning' or 'error', not the value from the environment"),
    ("public_url", "secret-value", "must be a URL such as https://host.example/v1"),
    ("host", "\udcff", "the environment variable X is not UTF-8; set it to UTF-8 text"),
]


@pytest.mark.parametrize(("key", "value", "message"), WRONG)
def test_wrong_value_of_the_environment_is_a_fault_that_does_not_show_it(
    conf: Conf, key: str, value: str, message: str
) -> None:
    assert conf.report(f"server:\n  {key}: ${{X}}\n", {"X": value}) == [f"FILE:2: server.{key}: {message}"]


# Files


def test_a_reference_to_a_file_becomes_its_text_without_the_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes("sk-ä\r\n".encode())
    (tmp_path / "two").write_bytes(b"a\nb\n\n")
    (tmp_path / "none").touch()
    texts = [
        "${file:key}",
        f"Bearer ${{file:{tmp_path / 'two'}}}",
        "${file:none:-}",
        "${file:none:-x}",
        "${file:gone:-y}",
    ]
    filled = fill(texts, {}, tmp_path)
    assert filled.values == ["sk-ä", "Bearer a\nb\n", "", "x", "y"]
    assert all(type(value) is EnvironmentText for value in filled.values)
    assert not filled.unset
    assert not filled.faults


def test_a_file_that_cannot_be_read_is_a_fault_that_does_not_show_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "latin").write_bytes(b"secret\xe4")
    (tmp_path / "long").write_bytes(b"s" * 65537)
    filled = fill(["${file:folder}", "${file:latin}", "${file:long}", "${file:}", "${file:empty}"], {}, tmp_path)
    assert [fault for _, fault in filled.faults] == [
        "the file folder cannot be read: Is a directory",
        "the file latin cannot be read: it is not UTF-8",
        "the file long cannot be read: it has more than 65536 bytes",
        "a reference must be ${NAME}, ${NAME:-default}, ${file:PATH} or ${secret:NAME}; write $${ for a literal ${",
        "the file empty cannot be read: it is empty; if it may be, write ${file:empty:-}",
    ]


def test_a_missing_file_is_a_fault_unless_its_entry_is_off(conf: Conf) -> None:
    text = "plugins: {openai: %s}\nproviders: {o: {plugin: openai, base_url: 'http://127.0.0.1:1', api_key: '${file:gone}'}}\n"
    assert conf.report(text % "true") == [
        "FILE:2: providers.o.api_key: the file gone does not exist; create it, or write ${file:gone:-default}"
    ]
    assert conf.report(text % "false") == []
