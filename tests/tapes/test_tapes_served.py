"""Requests that a gateway records, and their replay: what is on a tape, what is not, and what a replay finds."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import run_command
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Answer, Close, Reset, Upstream, Wait, answer, sse
from tests.tapes.conftest import ANN, CHAT, ROOT, UPSTREAM_KEY, Site, read_lines, start_site
from tornado_gate.tapes.tape import read_tape
from tornado_gate.testing import check_tape, replay_tape

WORDS = [chunk(content=word) for word in ("Hello", " you")]
END = (chunk(reason="stop"), usage_chunk(), DONE)
STREAM = CHAT | {"stream": True}
MESSAGE = {"model": "of-chat", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
BUSY = answer('{"error": {"message": "busy"}}', status=503, path="/chat")


def script_stream() -> Answer:
    return answer(sse(*WORDS), sse(*END))


CASES: list[tuple[str, dict[str, Any], str, list[Answer], int]] = [
    ("a whole answer", CHAT, "/v1/chat/completions", [answer(completion("Hi"))], 200),
    ("a stream", STREAM, "/v1/chat/completions", [script_stream()], 200),
    ("another format", MESSAGE, "/v1/messages", [answer(completion("Hi"))], 200),
    ("a stream of another format", MESSAGE | {"stream": True}, "/v1/messages", [script_stream()], 200),
    ("a second target", CHAT | {"model": "both"}, "/v1/chat/completions", [BUSY, answer(completion("Hi"))], 200),
    ("a refusal", CHAT, "/v1/chat/completions", [answer('{"error": {"message": "no"}}', status=400)], 400),
    ("a reset", CHAT, "/v1/chat/completions", [answer(Reset())], 502),
    ("a broken stream", STREAM, "/v1/chat/completions", [answer(sse(*WORDS), Close())], 200),
]


@pytest.mark.parametrize(("name", "body", "path", "answers", "status"), CASES, ids=[case[0] for case in CASES])
def test_a_replay_of_todays_code_is_equal(
    site: Site, upstream: Upstream, name: str, body: Any, path: str, answers: list[Answer], status: int
) -> None:
    upstream.script(*answers)
    response, tape = site.record(body, path)
    assert response.status_code == status
    replay = replay_tape(tape)
    assert replay.differences == (), name
    assert len(replay.received) == len(upstream.requests) == len(answers)
    assert read_tape(tape).body == response.content


def test_a_tape_has_both_sides_of_the_gateway_and_no_key(site: Site, upstream: Upstream) -> None:
    upstream.script(answer(completion(f"Your key is {UPSTREAM_KEY}, is it?"), headers={"set-cookie": "secret=1"}))
    _, path = site.record(CHAT, authorization=f"Bearer {ROOT}")
    text = path.read_text(encoding="utf-8")
    for secret in (ROOT, UPSTREAM_KEY, "secret-account", "secret=1"):
        assert secret not in text, secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    lines = read_lines(path)
    assert [line["kind"] for line in lines] == [
        *("tape", "request", "target", "upstream_request", "upstream_head", "upstream_chunk", "upstream_end"),
        *("answer_head", "answer_chunk", "end"),
    ]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    request, sent = lines[1], lines[3]
    assert json.loads(request["text"]) == CHAT
    assert json.loads(sent["text"])["model"] == "gpt-4o"
    assert sent["headers"]["authorization"] == sent["headers"]["x-account"] == "***"
    assert "Your key is ***, is it?" in lines[5]["text"]
    assert lines[-1] == lines[-1] | {"status": 200, "outcome": "complete", "truncated": False, "withheld": False}


def test_headers_that_are_not_text_are_recorded_and_change_no_response(site: Site, upstream: Upstream) -> None:
    upstream.script(answer(completion("Hi"), headers={"x-odd": "caf\xe9\xff"}))
    response, path = site.record(CHAT, "/v1/chat/completions?trace=sk-canary-0123456789")
    assert response.status_code == 200
    lines = read_lines(path)
    assert lines[4]["headers"]["x-odd"] == "caf??"
    assert lines[1]["query"] == "trace=%2A%2A%2A", "the value looks like a key"


def test_a_key_that_an_upstream_sends_in_two_chunks_is_masked(site: Site, upstream: Upstream) -> None:
    frame = sse(chunk(content=f"key {UPSTREAM_KEY} end"))
    middle = frame.index(UPSTREAM_KEY) + 9
    upstream.script(answer(sse(*WORDS) + frame[:middle], Wait("go on"), frame[middle:], sse(*END)))
    url, headers = site.gateway.url + "/v1/chat/completions", {"authorization": f"Bearer {ROOT}", "x-gate-tape": "1"}
    with httpx.stream("POST", url, json=STREAM, headers=headers, trust_env=False, timeout=30) as response:
        upstream.tell("go on")
        response.read()
    text = site.wait_for_tape(response.headers["x-gate-tape"]).read_text(encoding="utf-8")
    assert UPSTREAM_KEY[:9] not in text
    assert UPSTREAM_KEY[9:] not in text
    assert "key *** end" in text


def test_only_administrators_ask_for_tapes(site: Site, upstream: Upstream) -> None:
    upstream.script(answer(completion("Hi"), repeat=True))
    refused = site.send(CHAT, key=ANN, **{"x-gate-tape": "1"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "administrator_required")
    wrong = site.send(CHAT, **{"x-gate-tape": "yes"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "x-gate-tape")
    before = {path.name for path in site.folder.iterdir()} if site.folder.exists() else set()
    for key, wish in ((ROOT, {"x-gate-tape": "0"}), (ROOT, {}), (ANN, {})):
        response = site.send(CHAT, key=key, **wish)
        assert (response.status_code, "x-gate-tape" in response.headers) == (200, False)
    _, path = site.record(CHAT)
    assert {path.name for path in site.folder.iterdir()} - before == {path.name}


def test_a_rule_records_what_it_matches_and_the_caller_does_not_see_it(site: Site, upstream: Upstream) -> None:
    upstream.script(answer(completion("Hi"), repeat=True))
    body = CHAT | {"model": "recorded-by-rule"}
    written = '"message":"a request was recorded"'
    before = site.gateway.logs.count(written)
    assert site.send(body, key="key-of-bob-0123456789").status_code == 200
    response = site.send(body, key=ANN)
    assert "x-gate-tape" not in response.headers
    again = site.send(body, key=ANN)  # a head that the client repeats
    site.gateway.wait_for_log(written, before + 2)
    tapes = site.ask("/admin/v1/tapes").json()["data"][:2]
    assert [tape["request_id"] for tape in tapes] == [again.headers["x-request-id"], response.headers["x-request-id"]]
    assert [(tape["reason"], tape["key"], tape["model"]) for tape in tapes] == [
        ("rule 1", "conf:ann", "recorded-by-rule")
    ] * 2


def test_a_long_answer_is_cut_with_a_mark(site: Site, upstream: Upstream) -> None:
    upstream.script(answer(*[sse(chunk(content="word " * 100)) for _ in range(40)], sse(*END)))
    response, path = site.record(STREAM)
    assert len(response.content) > 20_000
    last = read_lines(path)[-1]
    assert path.stat().st_size < 3 * 8192
    assert (last["truncated"], last["withheld"]) == (True, False)
    assert last["omitted_bytes"] > 20_000
    done = run_command("replay", str(path))
    assert done.returncode == 2
    assert "tapes.tape_bytes" in done.stderr


def test_old_tapes_leave_when_there_are_too_many(site: Site, upstream: Upstream) -> None:
    upstream.script(answer(completion("Hi"), repeat=True))
    paths = [site.record(CHAT)[1] for _ in range(7)]
    assert sorted(path.name for path in site.folder.iterdir()) == sorted(path.name for path in paths[2:])
    metrics = site.ask("/metrics").text
    assert 'tornado_gate_tapes_total{result="kept"}' in metrics
    assert 'tornado_gate_tapes_total{result="evicted"}' in metrics


def test_administrators_read_and_delete_tapes_and_the_audit_log_has_it(site: Site, upstream: Upstream) -> None:
    upstream.script(answer(completion("Hi")))
    response, path = site.record(CHAT)
    address = f"/admin/v1/tapes/{path.stem}"
    (listed,) = [tape for tape in site.ask("/admin/v1/tapes").json()["data"] if tape["id"] == path.stem]
    shown = ("request_id", "format", "operation", "model", "status", "outcome", "reason", "bytes")
    assert {name: listed[name] for name in shown} == {
        **{"request_id": response.headers["x-request-id"], "format": "format-openai", "operation": "chat"},
        **{"model": "of-chat", "status": 200, "outcome": "complete", "reason": "header", "bytes": path.stat().st_size},
    }
    got = site.ask(address)
    assert (got.content, got.headers["content-type"]) == (path.read_bytes(), "application/jsonl")
    assert site.ask(address, key=ANN).status_code == 403
    assert site.ask(address, "DELETE").json() == {"id": path.stem, "deleted": True}
    assert not path.exists()
    assert site.ask(address).json()["error"]["code"] == "unknown_tape"
    events = site.ask("/admin/v1/audit").json()["data"][:2]
    assert [(event["action"], event["object"]) for event in events] == [
        ("tape.delete", path.stem),
        ("tape.read", path.stem),
    ]


@pytest.mark.qa
def test_commands_list_show_delete_and_replay(site: Site, upstream: Upstream, tmp_path: Path) -> None:
    upstream.script(answer(completion("Hi")))
    _, path = site.record(CHAT)
    at = ["--conf", str(site.gateway.folder / "gate.yaml"), "--data-dir", str(site.gateway.folder / "var")]
    assert path.stem in run_command("tapes", "list", *at).stdout
    assert json.loads(run_command("tapes", "list", "--json", *at).stdout)[0]["id"] == path.stem
    assert run_command("tapes", "show", path.stem, *at).stdout == path.read_text(encoding="utf-8")
    equal = run_command("replay", path.stem, *at)
    assert (equal.returncode, equal.stdout) == (0, "Equal: 1 requests to the upstream, status 200.\n")

    assert run_command("tapes", "delete", path.stem, *at).returncode == 0
    gone = run_command("tapes", "show", path.stem, *at)
    assert (gone.returncode, "tapes list" in gone.stderr) == (1, True)
    assert run_command("replay", path.stem, *at).returncode == 2
    assert run_command("replay", str(tmp_path / "none.jsonl")).returncode == 2


def test_a_tape_is_a_fixture_of_a_test(tmp_path: Path) -> None:
    tape = Path(__file__).with_name("fixtures") / "weather.jsonl"
    replay = check_tape(tape)
    assert b'"type":"tool_use"' in replay.answer.body

    changed = tmp_path / "changed.jsonl"
    changed.write_text(tape.read_text(encoding="utf-8").replace("Oslo", "Rome", 1), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"(?s)Request 1 to the upstream:.*-.*Oslo.*\+.*Rome"):
        check_tape(changed)
    done = run_command("replay", str(changed), "--times")
    assert (done.returncode, "Request 1 to the upstream:" in done.stdout) == (1, True)


def test_what_cannot_be_replayed_says_why(site: Site, upstream: Upstream, tmp_path: Path) -> None:
    _, inside = site.record(CHAT | {"model": "inside"})
    unknown = site.record(CHAT | {"model": "unknown"})[1]
    for path in (inside, unknown):
        done = run_command("replay", str(path))
        assert (done.returncode, "no upstream got the request" in done.stderr) == (2, True)
    assert read_tape(unknown).status == 404


def test_a_caller_who_leaves_ends_the_tape(site: Site, upstream: Upstream) -> None:
    upstream.script(answer(sse(*WORDS), Wait("never")))
    url, headers = site.gateway.url + "/v1/chat/completions", {"authorization": f"Bearer {ROOT}", "x-gate-tape": "1"}
    with httpx.stream("POST", url, json=STREAM, headers=headers, trust_env=False, timeout=30) as response:
        texts = response.iter_text()  # closes the response when it is dropped
        assert "Hello" in next(texts)
    tape = read_tape(site.wait_for_tape(response.headers["x-gate-tape"]))
    assert tape.end["outcome"] == "aborted"
    assert tape.exchanges[1].fault.startswith("closed by the gateway")


def test_what_guards_replace_is_on_no_tape(upstream: Upstream, tmp_path: Path) -> None:
    site = start_site(upstream.url, tmp_path, ", redact: {required: true, restore: true}")
    upstream.script(answer(completion("I wrote it.")), script_stream(), answer(completion("I wrote to [EMAIL_1].")))
    _, kept = site.record(CHAT)
    assert "alice" not in kept.read_text(encoding="utf-8")
    texts = {line["kind"]: line.get("text", "") for line in read_lines(kept)}
    assert "Write to [EMAIL_1]." in texts["request"]
    assert "Write to [EMAIL_1]." in texts["upstream_request"]
    assert "I wrote it." in texts["answer_chunk"]
    assert replay_tape(kept).differences == ()
    _, kept_stream = site.record(STREAM)
    assert b"Hello you" in read_tape(kept_stream).body
    assert replay_tape(kept_stream).differences == ()

    response, withheld = site.record(CHAT)
    assert "alice@example.com" in response.text
    lines = read_lines(withheld)
    assert "alice" not in withheld.read_text(encoding="utf-8")
    assert "I wrote" not in withheld.read_text(encoding="utf-8")
    assert (lines[-1]["withheld"], lines[-2]["withheld_bytes"]) == (True, len(response.content))
    assert "a guard has replaced" in run_command("replay", str(withheld)).stderr
    site.gateway.stop()


def test_what_guards_could_not_review_is_on_no_tape(upstream: Upstream, tmp_path: Path) -> None:
    site = start_site(upstream.url, tmp_path, ", redact: {required: true}")
    for answers, status in (
        ([answer(sse(*WORDS), Close())], 200),
        ([answer('{"error": {"message": "Hello?"}}', status=503, path="/chat"), answer(completion("Hi"))], 200),
        ([answer('{"error": {"message": "Hello?"}}', status=400)], 400),
    ):
        upstream.reset()
        upstream.script(*answers)
        response, path = site.record(STREAM if len(answers) == 1 and status == 200 else CHAT | {"model": "both"})
        assert (response.status_code, read_lines(path)[-1]["withheld"]) == (status, True)
        assert "Hello" not in path.read_text(encoding="utf-8")
    site.gateway.stop()


@pytest.mark.qa
def test_a_reload_switches_tapes_on_and_off(upstream: Upstream, tmp_path: Path) -> None:
    site = start_site(upstream.url, tmp_path)
    upstream.script(answer(completion("Hi"), repeat=True))
    file = tmp_path / "gate.yaml"
    conf = file.read_text(encoding="utf-8")
    with httpx.Client(trust_env=False, headers={"authorization": f"Bearer {ROOT}", "x-gate-tape": "1"}) as client:
        url = site.gateway.url + "/v1/chat/completions"
        assert "x-gate-tape" in client.post(url, json=CHAT).headers
        file.write_text(conf.replace("tapes:", "# tapes:"), encoding="utf-8")
        site.gateway.wait_for_log("configuration 2 is in force")
        for _ in range(3):
            assert "x-gate-tape" not in client.post(url, json=CHAT).headers
        file.write_text(conf, encoding="utf-8")
        site.gateway.wait_for_log("configuration 3 is in force")
        assert "x-gate-tape" in client.post(url, json=CHAT).headers
    output = site.gateway.stop()
    assert "Traceback" not in output
    assert len(list((tmp_path / "var" / "tapes").glob("*.jsonl"))) == 2
