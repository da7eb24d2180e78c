"""A reviewed change of conf: what is shown, what is refused, and what is written."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tornado_gate import config as conf
from tornado_gate.config.model import Config
from tornado_gate.server.process.conf_change import ChangeRefused, Review, apply_plugin, review_plugin

TEXT = """\
plugins:
  local: true    # the demonstration
  openai: false
providers:
  local: {plugin: local}
  mine: {plugin: openai, base_url: "http://127.0.0.1:9", api_key: "${NO_SUCH_VARIABLE_HERE}"}
models:
  local-chat: {provider: local}
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "gate.yaml"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    path.chmod(0o640)
    return conf.load(path, {})


def get_path(config: Config) -> Path:
    assert config.path is not None
    return config.path


def test_a_reviewed_change_is_written_and_nothing_else(config: Config) -> None:
    path = get_path(config)
    before = path.stat()
    review = review_plugin(config, "cascade", on=True)
    assert review.is_applicable
    assert review.diff.splitlines()[:2] == ["--- gate.yaml", "+++ gate.yaml"]
    assert "+  cascade: true" in review.diff
    apply_plugin(config, "cascade", on=True, digest=review.digest)
    expected = TEXT.replace("  openai: false\n", "  openai: false\n  cascade: true\n")
    assert path.read_bytes() == expected.replace("\n", "\r\n").encode()
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert [entry.name for entry in path.parent.iterdir()] == ["gate.yaml"]


def test_a_text_with_faults_is_not_applied(config: Config) -> None:
    review = review_plugin(config, "openai", on=True)
    assert len(review.faults) == 1
    assert "api_key: the environment variable NO_SUCH_VARIABLE_HERE is not set" in review.faults[0]
    assert review.unset == ("NO_SUCH_VARIABLE_HERE",)
    with pytest.raises(ChangeRefused, match="has faults"):
        apply_plugin(config, "openai", on=True, digest=review.digest)
    assert b"openai: false" in get_path(config).read_bytes()


def test_a_plugin_that_is_not_installed_is_a_fault(config: Config) -> None:
    assert not review_plugin(config, "nothing", on=True).is_applicable


def test_what_becomes_inactive_is_noted_and_lost_models_are_named(config: Config) -> None:
    review = review_plugin(config, "local", on=False)
    notes = review.notes
    assert review.lost == ("local-chat",)
    assert review_plugin(config, "cascade", on=True).lost == ()
    assert any(note.startswith("models.local-chat is inactive") for note in notes), notes


def test_a_file_that_changed_since_the_review_is_left_alone(config: Config) -> None:
    review = review_plugin(config, "cascade", on=True)
    path = get_path(config)
    path.write_text(TEXT + "# a later comment\n", encoding="utf-8")
    with pytest.raises(ChangeRefused, match="changed since"):
        apply_plugin(config, "cascade", on=True, digest=review.digest)
    assert path.read_text(encoding="utf-8").endswith("# a later comment\n")


def test_of_two_administrators_who_reviewed_the_same_text_one_is_told(config: Config) -> None:
    plugins = ["cascade", "kling", "dashscope", "gemini"]
    reviews = [review_plugin(config, name, on=True) for name in plugins]

    def apply(plugin: str, review: Review) -> str:
        try:
            apply_plugin(config, plugin, on=True, digest=review.digest)
        except ChangeRefused as refused:
            return str(refused)
        return "applied"

    with ThreadPoolExecutor(len(plugins)) as pool:
        results = sorted(pool.map(apply, plugins, reviews))
    changed = "The file has changed since you reviewed the change. Review it again."
    assert results == [changed, changed, changed, "applied"]
    text = get_path(config).read_text(encoding="utf-8")
    assert sum(f"{name}: true" in text for name in plugins) == 1


def test_without_a_file_the_lines_are_shown() -> None:
    review = review_plugin(conf.default_config(), "openai", on=True)
    assert not review.is_applicable
    assert review.lines == "plugins:\n  openai: true\n"
    with pytest.raises(ChangeRefused):
        apply_plugin(conf.default_config(), "openai", on=True, digest="")


def test_a_file_that_may_not_be_written_is_refused(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    review = review_plugin(config, "cascade", on=True)
    assert "may not write" in review.refusal
    assert review.diff
    with pytest.raises(ChangeRefused, match="may not write"):
        apply_plugin(config, "cascade", on=True, digest=review.digest)


def test_a_failed_write_leaves_the_file_and_no_other(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    review = review_plugin(config, "cascade", on=True)

    def fail(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ChangeRefused, match="busy"):
        apply_plugin(config, "cascade", on=True, digest=review.digest)
    path = get_path(config)
    assert path.read_bytes() == TEXT.replace("\n", "\r\n").encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["gate.yaml"]


def test_a_link_stays_a_link(config: Config, tmp_path: Path) -> None:
    link = tmp_path / "links" / "gate.yaml"
    link.parent.mkdir()
    link.symlink_to(get_path(config))
    linked = conf.load(link, {})
    apply_plugin(linked, "cascade", on=True, digest=review_plugin(linked, "cascade", on=True).digest)
    assert link.is_symlink()
    assert b"cascade: true" in get_path(config).read_bytes()
