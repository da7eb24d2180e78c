"""Forms with files on tapes: the caller's, and the one that the upstream gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gateway import run_command
from tests.support.upstream import Upstream, answer
from tests.tapes.conftest import Site, read_lines, start_site
from tornado_gate.tapes.tape import read_tape
from tornado_gate.testing import replay_tape

TRANSCRIPTIONS = "/v1/audio/transcriptions"
FIELDS = {"model": "of-audio", "language": "en", "timestamp_granularities[]": "word", "response_format": "verbose_json"}
SOUND = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(range(256))
HEARD = answer('{"task": "transcribe", "text": "hello", "duration": 1.5, "language": "english"}')


def test_a_form_is_recorded_with_its_file_and_its_replay_is_equal(site: Site, upstream: Upstream) -> None:
    upstream.script(HEARD)
    response, path = site.record_form(FIELDS, SOUND, TRANSCRIPTIONS)
    assert response.json()["text"] == "hello"
    tape = read_tape(path)
    assert tape.request is not None
    assert SOUND in tape.request.body
    assert SOUND in tape.exchanges[1].request.body
    kinds = [line["kind"] for line in read_lines(path)]
    assert kinds.index("upstream_request") < kinds.index("upstream_head")
    replay = replay_tape(path)
    assert replay.differences == ()
    assert SOUND in replay.received[0].body


@pytest.mark.qa
def test_a_replay_finds_another_field_of_the_form(site: Site, upstream: Upstream, tmp_path: Path) -> None:
    upstream.script(HEARD)
    _, path = site.record_form(FIELDS | {"response_format": "json", "prompt": "Oslo"}, b"plain sound", TRANSCRIPTIONS)
    changed = tmp_path / "changed.jsonl"
    changed.write_text(path.read_text(encoding="utf-8").replace("Oslo", "Rome", 1), encoding="utf-8")
    done = run_command("replay", str(changed))
    assert done.returncode == 1
    assert "Oslo" in done.stdout
    assert "Rome" in done.stdout


def test_a_large_file_is_cut_and_such_a_tape_is_not_replayed(site: Site, upstream: Upstream) -> None:
    upstream.script(HEARD)
    response, path = site.record_form(FIELDS, SOUND * 100, TRANSCRIPTIONS)
    assert response.status_code == 200
    assert path.stat().st_size < 4 * 8192
    assert read_lines(path)[-1]["omitted_bytes"] > 40_000
    assert "tapes.tape_bytes" in run_command("replay", str(path)).stderr


@pytest.mark.qa
def test_guards_leave_the_fields_of_a_form_and_the_tape_has_no_file(upstream: Upstream, tmp_path: Path) -> None:
    site = start_site(upstream.url, tmp_path, ", redact: {required: true}")
    upstream.script(HEARD)
    _, path = site.record_form({"model": "of-audio", "prompt": "of alice@example.com"}, SOUND, TRANSCRIPTIONS)
    request = next(line for line in read_lines(path) if line["kind"] == "request")
    assert request["fields"] == {"model": "of-audio", "prompt": "of ***"}
    assert "alice" not in path.read_text(encoding="utf-8")
    assert "the files of a form that guards have reviewed" in run_command("replay", str(path)).stderr
    site.gateway.stop()
