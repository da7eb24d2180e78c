"""What YAML makes of a file, and what a person who writes one hits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.support import Conf
from tornado_gate import config
from tornado_gate.config import source, written
from tornado_gate.config.faults import FileFaults, describe

HERE = Path("gate.yaml")

SYNTAX = [
    ("server:\n\tport: 1", 2, "YAML indents with spaces, never with tabs"),
    ("models:\n  *: {provider: p}", 2, 'a value or name that begins with * needs quotes: "*"'),
    ("keys:\n  - {models: [*]}", 2, 'a value or name that begins with * needs quotes: "*"'),
    ("keys:\n  - {key: ${KEY:-}}", 2, 'inside { } and [ ] a ${...} needs quotes: "${...}"'),
    ("models:\n  a: b: c", 2, "text that contains ': ' needs quotes"),
    ("server: {host: @here}", 1, "text that begins with this character needs quotes"),
    ("server: {host: 'x", 1, "found unexpected end of stream"),
    ("server: {}\n---\nserver: {}", 2, "but found another document"),
    ("server:\n  host: a\x01b", 2, "the character U+0001 is not allowed"),
]


@pytest.mark.parametrize(("text", "line", "message"), SYNTAX)
def test_broken_yaml_is_reported_with_its_line_and_a_hint(conf: Conf, text: str, line: int, message: str) -> None:
    (fault,) = conf.report(text)
    assert fault.startswith(f"FILE:{line}: is not valid YAML: ")
    assert message in fault


def test_every_key_and_item_has_its_line() -> None:
    document = source.parse("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n", HERE)
    assert document.values == {"a": {"b": 1, "c": ["x", {"d": 2}]}}
    assert document.lines == {
        (): 1,
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 3,
        ("a", "c", 0): 4,
        ("a", "c", 1): 5,
        ("a", "c", 1, "d"): 5,
    }


def test_scalars_have_the_types_of_yaml_but_dates_stay_text() -> None:
    document = source.parse("[1, 0x10, 1.5, true, yes, ~, text, '1', 2024-08-06, !!str 5]", HERE)
    assert document.values == [1, 16, 1.5, True, True, None, "text", "1", "2024-08-06", "5"]


def test_key_is_the_text_that_was_written() -> None:
    assert source.parse("{on: 1, 2: 3, ~: 4}", HERE).values == {"on": 1, "2": 3, "~": 4}


def test_duplicate_key_names_both_lines(conf: Conf) -> None:
    assert conf.report("server:\n  port: 1\n  port: 2\n") == [
        "FILE:3: server.port: occurs twice, first on line 2; remove one of them"
    ]


def test_key_that_is_no_text_is_refused(conf: Conf) -> None:
    (fault,) = conf.report("models:\n  {{name}}: {provider: p}\n")
    assert fault.startswith("FILE:2: models.?: a key must be text; put quotes around it")


def test_merge_key_is_refused(conf: Conf) -> None:
    (fault,) = conf.report("server: &s {port: 1}\nlimits:\n  <<: *s\n")
    assert fault == "FILE:3: limits.<<: merge keys are not supported; write the keys out"


def test_alias_stands_for_what_it_names(conf: Conf) -> None:
    loaded = conf.load("""\
plugins: {p: true}
providers:
  a: {plugin: p, timeouts: &slow {total: 900}}
  b: {plugin: p, timeouts: *slow}
""")
    assert loaded.providers["b"].timeouts.total == 900


@pytest.mark.qa
def test_alias_bomb_is_refused_before_it_grows(conf: Conf) -> None:
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (fault,) = conf.report("\n".join(bomb))
    assert "is too large with its aliases expanded; at most 500000 values" in fault


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 100_000, "a: &a [*a]"])
def test_endless_nesting_is_refused(conf: Conf, text: str) -> None:
    (fault,) = conf.report(text)
    assert "50 levels" in fault


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.getcwd []", "!!binary YQ==", "!!set {a}", "!x y", "!!map x"])
def test_tags_are_never_executed(conf: Conf, tag: str) -> None:
    (fault,) = conf.report(f"dialect: {tag}\n")
    assert fault.startswith("FILE:1: dialect: tags are not allowed")


def test_top_level_must_be_a_mapping(conf: Conf) -> None:
    (fault,) = conf.report("- server\n")
    assert fault.startswith("FILE:1: must be a mapping with the sections server, plugins, ")
    assert fault.endswith("not a list")


def test_empty_section_is_as_good_as_none(conf: Conf) -> None:
    loaded = conf.load("server:\nplugins:\nproviders:\nmodels:\nkeys:\nlimits:\ncircuits:\ndefaults:\n")
    assert loaded.server == config.ServerConfig()
    assert loaded.limits == config.LimitsConfig()
    assert not loaded.models


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "{}", "~", "--- \n...\n", "\ufeff"])
def test_a_file_that_says_nothing_is_a_fault(conf: Conf, text: str) -> None:
    (fault,) = conf.report(text)
    assert fault.startswith("FILE:1: is empty; write at least one of the sections server, ")


@pytest.fixture
def without_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system, where another process may write while the file is read."""
    monkeypatch.setattr("tornado_gate.config.written._SET_LEASE", None)


@pytest.mark.usefixtures("without_leases")
def test_a_file_that_changes_while_it_is_read_is_read_again(conf: Conf, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "server: {port: 1}\nmodels: {}\n"
    conf.path.write_text(whole[:20], encoding="utf-8")
    real, calls = os.fstat, []

    def write_the_rest_after_the_first_look(number: int) -> os.stat_result:
        found = real(number)
        calls.append(number)
        if len(calls) == 1:
            with conf.path.open("a", encoding="utf-8") as file:
                file.write(whole[20:])
        return found

    monkeypatch.setattr(source.os, "fstat", write_the_rest_after_the_first_look)
    assert source.read(conf.path).values == {"server": {"port": 1}, "models": {}}
    assert len(calls) == 4


@pytest.mark.usefixtures("without_leases")
def test_a_file_that_never_stops_changing_is_a_fault(conf: Conf, monkeypatch: pytest.MonkeyPatch) -> None:
    conf.path.write_text("server:\n", encoding="utf-8")
    real = os.fstat

    def append(number: int) -> os.stat_result:
        found = real(number)
        with conf.path.open("a", encoding="utf-8") as file:
            file.write("#")
        return found

    monkeypatch.setattr(source.os, "fstat", append)
    monkeypatch.setattr(source, "READ_PAUSE_SECONDS", 0)
    with pytest.raises(config.FileFaults, match="changes while it is read"):
        source.read(conf.path)


def test_a_file_that_is_open_for_writing_is_read_at_a_start_but_not_at_rest(conf: Conf) -> None:
    with conf.path.open("w", encoding="utf-8") as writer:
        writer.write("server: {port: 1}\n")
        writer.flush()
        assert source.read(conf.path).values == {"server": {"port": 1}}
        with pytest.raises(config.FileBusy):
            source.read(conf.path, at_rest=True)
    assert source.read(conf.path, at_rest=True).values == {"server": {"port": 1}}


def test_a_writer_waits_while_the_file_is_read(conf: Conf) -> None:
    conf.path.write_text("server: {port: 1}\n", encoding="utf-8")
    program = f"import sys; open({str(conf.path)!r}, 'a').close()"
    with conf.path.open("rb") as file:
        with written.hold_off_writers(file.fileno()) as held:
            assert held
            writer = subprocess.Popen([sys.executable, "-c", program])
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(0.5)
        assert writer.wait(60) == 0


@pytest.mark.parametrize(
    ("text", "is_closed"),
    [
        ("a: 1\n", False),
        ("a: 1\n...\n", True),
        ("a: 1\n...", True),
        ("a: 1\n...\n# end\n\n", True),
        ("a: '\n ...'\n", False),
    ],
)
def test_the_mark_of_the_end_is_found(conf: Conf, text: str, is_closed: bool) -> None:
    assert source.parse(text, conf.path).is_closed is is_closed


def test_a_file_that_has_lost_its_mark_of_the_end_is_refused_while_the_gateway_runs(conf: Conf) -> None:
    closed, opened = conf.load("models: {}\n...\n"), conf.load("models: {}\n")
    config.check_lost_sections(opened, closed)
    with pytest.raises(FileFaults, match="the last line is not"):
        config.check_lost_sections(closed, opened)


def test_bytes_that_are_not_utf8_are_refused_with_their_line(conf: Conf) -> None:
    conf.path.write_bytes(b"server:\n  host: caf\xe9\n")
    with pytest.raises(FileFaults) as caught:
        config.load(conf.path, {})
    assert caught.value.report() == [f"{conf.path}:2: has a byte that is not UTF-8; save the file as UTF-8"]


def test_byte_order_mark_is_skipped(conf: Conf) -> None:
    conf.path.write_bytes(b"\xef\xbb\xbfserver: {port: 9}\n")
    assert config.load(conf.path, {}).server.port == 9


def test_file_that_is_too_large_is_refused(conf: Conf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGEST_FILE", 1 << 20)
    assert conf.report("#" * (1 << 20) + "#") == ["FILE:1: is too large; at most 1 MiB are allowed"]


def test_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(FileFaults) as caught:
        config.load(tmp_path, {})
    assert caught.value.report() == [f"{tmp_path}:1: cannot be read: Is a directory"]


def test_fault_is_one_line_without_control_characters() -> None:
    faults = [(("a\n\x1b[31mb",), "is wrong")]
    assert describe(faults, HERE, {}) == ["gate.yaml:1: a\\n\\x1b[31mb: is wrong"]


def test_fault_of_built_in_conf_says_so() -> None:
    assert describe([(("server",), "is wrong")], None, {}) == ["built-in conf:1: server: is wrong"]


def test_some_sections_may_be_written_again_below(conf: Conf) -> None:
    text = "plugins: {local: false}\nproviders: {a: {plugin: local}}\nplugins: {local: true}\nproviders:\n  b: {plugin: local}\n"
    config = conf.load(text + "models: {m: {provider: b}}\nmodels:\n")
    assert config.plugins["local"]
    assert set(config.providers) == {"a", "b"}
    assert config.models["m"].targets[0].provider == "b"


def test_an_entry_in_two_of_them_names_both_lines(conf: Conf) -> None:
    text = "plugins: {local: true}\nproviders: {a: {plugin: local}}\nproviders:\n  a: {plugin: local}\n"
    assert conf.report(text) == ["FILE:4: providers.a: occurs twice, first on line 2; remove one of them"]
    text = "plugins: {local: true}\nplugins: {local: false}\n"
    assert conf.report(text) == ["FILE:2: plugins.local: occurs twice, first on line 1; remove one of them"]
    text = "server: {port: 1}\nserver: {host: localhost}\n"
    assert conf.report(text) == ["FILE:2: server: occurs twice, first on line 1; remove one of them"]
