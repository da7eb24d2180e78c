"""The recipes of the cookbook: what each vendor gets, and what the callers get."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import struct
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.docs.cookbook import KEY, install_recipes, make_conf, make_secret
from tests.support.gateway import Gateway
from tests.support.upstream import Reset, Upstream, Wait, answer, sse

HEADERS = {"Authorization": f"Bearer {KEY}"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TEXT = json.dumps({"text": "Good day"})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, upstream_process: Upstream) -> Iterator[Gateway]:
    """One gateway with all recipes."""
    folder = tmp_path_factory.mktemp("cookbook")
    conf, variables = make_conf(upstream_process.url)
    path = os.pathsep.join([str(install_recipes(folder)), os.environ.get("PYTHONPATH", "")])
    running = Gateway.start(conf, folder, environment={"PYTHONPATH": path, **variables})
    yield running
    running.stop()


def post(gateway: Gateway, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    return httpx.post(gateway.url + path, json=body, headers=HEADERS | headers, trust_env=False, timeout=30)


def send_request(gateway: Gateway, model: str, **fields: Any) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], **fields}
    return post(gateway, "/v1/chat/completions", body)


def text_of(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


@pytest.mark.qa
def test_signed_requests(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(TEXT))
    response = send_request(gateway, "signed-1", temperature=0)
    assert (text_of(response), response.headers["x-gate-loss"]) == ("Good day", "temperature")
    (request,) = upstream.requests
    signed = request.headers["x-date"].encode() + b"\n" + request.body
    expected = hmac.new(make_secret("SIGNED_SECRET").encode(), signed, hashlib.sha256).hexdigest()
    assert request.headers["authorization"] == f"HMAC team-7:{expected}"


def test_one_request_fetches_the_token_for_all_and_a_refused_token_is_fetched_anew(
    gateway: Gateway, upstream: Upstream
) -> None:
    first, second = ({"access_token": name, "expires_in": 3600} for name in ("first", "second"))
    upstream.script(answer(Wait("all are here"), json.dumps(first), path="/token"))
    upstream.script(answer(TEXT, path="/complete", repeat=True))

    async def ask_at_once() -> list[str]:
        async with httpx.AsyncClient(trust_env=False, timeout=30, headers=HEADERS) as client:
            body = {"model": "oauth-1", "messages": [{"role": "user", "content": "Hello"}]}
            asked = [
                asyncio.create_task(client.post(f"{gateway.url}/v1/chat/completions", json=body)) for _ in range(5)
            ]
            await asyncio.to_thread(upstream.wait_for_requests, 1)
            upstream.tell("all are here")
            return [text_of(response) for response in await asyncio.gather(*asked)]

    assert asyncio.run(ask_at_once()) == ["Good day"] * 5
    token, *others = upstream.requests
    form = parse_qs(token.body.decode())
    assert form["client_secret"] == [make_secret("OAUTH_CLIENT_SECRET")]
    assert [request.headers["authorization"] for request in others] == ["Bearer first"] * 5

    upstream.reset()
    upstream.script(answer("{}", status=401, path="/complete"), answer(json.dumps(second), path="/token"))
    upstream.script(answer(TEXT, path="/complete"))
    assert text_of(send_request(gateway, "oauth-1")) == "Good day"
    assert [request.headers.get("authorization") for request in upstream.requests] == [
        "Bearer first",
        None,
        "Bearer second",
    ]


def test_a_fetched_token_is_masked_everywhere(gateway: Gateway, upstream: Upstream) -> None:
    old, token = "eyJhbGciOi.the-access-token-before.c2ln", "eyJhbGciOi.the-access-token-of-now.c2ln"
    upstream.script(answer(json.dumps({"access_token": "first", "expires_in": 3600}), path="/token"), answer(TEXT))
    assert text_of(send_request(gateway, "oauth-1")) == "Good day"
    upstream.reset()  # the plugin has a token, of this request or of an earlier test
    for each in (old, token):
        upstream.script(answer("{}", status=401, path="/complete"))
        upstream.script(answer(json.dumps({"access_token": each, "expires_in": 3600}), path="/token"))
        upstream.script(answer(json.dumps({"text": f"You sent {each}"}), path="/complete"))
        assert text_of(send_request(gateway, "oauth-1")) == "You sent ***"
    shown = {"error": {"message": f"The token {token} has no access; the one before was {old}"}}
    upstream.script(answer(json.dumps(shown), status=400), answer(Reset()))
    refused = send_request(gateway, "oauth-1")
    assert refused.json()["error"]["message"] == "The token *** has no access; the one before was ***"
    assert [
        each for each in (old, token) if each in refused.text + send_request(gateway, "oauth-1").text + gateway.logs
    ] == []


def test_a_key_in_the_query_is_masked_everywhere(gateway: Gateway, upstream: Upstream) -> None:
    key = make_secret("QUERY_KEY")
    upstream.script(answer(TEXT))
    assert text_of(send_request(gateway, "query-1")) == "Good day"
    (request,) = upstream.requests
    assert parse_qs(urlsplit(request.path).query) == {"key": [key], "model": ["query-1"]}
    shown = {"error": {"message": f"No access to /complete?key={key}"}}
    upstream.script(answer(json.dumps(shown), status=400), answer(Reset()))
    assert key not in send_request(gateway, "query-1").text + send_request(gateway, "query-1").text + gateway.logs


def test_a_job_is_polled_inside_one_request(gateway: Gateway, upstream: Upstream) -> None:
    states = [{"id": "j1", "state": "waiting"}, {"id": "j1", "state": "working"}]
    done = {"id": "j1", "state": "done", "result": f"{upstream.url}/results/j1.png"}
    upstream.script(*(answer(json.dumps(state), path="/jobs") for state in [*states, done]))
    upstream.script(answer(PNG, headers={"content-type": "image/png"}, path="/results"))
    body = {"model": "jobs-1", "prompt": "A dot", "response_format": "b64_json"}
    response = post(gateway, "/v1/images/generations", body)
    assert response.status_code == 200, response.text
    assert base64.b64decode(response.json()["data"][0]["b64_json"]) == PNG
    paths = [request.path for request in upstream.requests]
    assert paths == ["/jobs", "/jobs/j1", "/jobs/j1", "/results/j1.png"]
    upstream.script(answer(json.dumps({"id": "j2", "state": "failed", "reason": "no paint"}), path="/jobs"))
    response = post(gateway, "/v1/images/generations", body)
    assert (response.status_code, response.json()["error"]["message"]) == (502, "The provider 'jobs' failed: no paint")


def test_a_video_is_started_polled_and_downloaded(gateway: Gateway, upstream: Upstream) -> None:
    film = b"\0\0\0\x18ftypmp42" + bytes(5000)
    for state in ("planned", "filming", "ready"):
        upstream.script(answer(json.dumps({"id": "f1", "state": state, "percent": 50}), path="/films"))
    upstream.script(answer(film, headers={"content-type": "video/mp4"}, path="/films/f1/file"))
    with httpx.Client(base_url=gateway.url, headers=HEADERS, trust_env=False, timeout=60) as client:
        started = client.post("/v1/videos", json={"model": "films-1", "prompt": "A dot moves", "seconds": "4"})
        assert started.status_code == 200, started.text
        task = f"/v1/videos/{started.json()['id']}"
        ended = client.get(task, params={"wait": 60})
        assert ended.json()["status"] == "completed", ended.text
        assert client.get(f"{task}/content").content == film
    first, *rest = upstream.requests
    assert first.json == {"scene": "A dot moves", "seconds": 4}
    assert [request.path for request in rest] == ["/films/f1", "/films/f1", "/films/f1/file"]


def frame(value: dict[str, Any]) -> bytes:
    body = json.dumps(value).encode()
    return struct.pack(">I", len(body)) + body


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_streams_of_every_kind(gateway: Gateway, upstream: Upstream) -> None:
    lines = b"".join(
        json.dumps(v).encode() + b"\n" for v in ({"piece": "Good "}, {"piece": "day ü"}, {"tokens": [3, 2]})
    )
    upstream.script(answer(*cut(lines, 7), headers={"content-type": "application/x-ndjson"}))
    response = send_request(gateway, "lines-1", temperature=0)
    assert text_of(response) == "Good day ü"
    assert (response.json()["usage"]["total_tokens"], upstream.requests[0].json["heat"]) == (5, 0)

    frames = (
        frame({"type": "text", "text": "Good "})
        + frame({"type": "text", "text": "day"})
        + frame({"type": "end", "why": "x"})
    )
    octets = {"content-type": "application/octet-stream"}
    upstream.script(answer(*cut(frames, 5), headers=octets), answer(frames[:-3], headers=octets))
    assert text_of(send_request(gateway, "frames-1")) == "Good day"
    assert "error" in send_request(gateway, "frames-1").json()

    growing = [{"text": "Good"}, {"text": "Good day"}, {"text": "Good day", "complete": True}]
    upstream.script(answer(sse(*growing)), answer(sse({"text": "Good"}, {"text": "Bad day"})))
    assert text_of(send_request(gateway, "growing-1")) == "Good day"
    assert "changed text" in send_request(gateway, "growing-1", stream=True).text


def test_sound_and_images_as_files(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(b"ID3", bytes(3000), headers={"content-type": "audio/mpeg"}, path="/say"))
    upstream.script(answer(PNG, headers={"content-type": "image/png"}, path="/paint"))
    spoken = post(gateway, "/v1/audio/speech", {"model": "media/voice-1", "input": "Hello", "voice": "ann"})
    assert (spoken.status_code, spoken.content) == (200, b"ID3" + bytes(3000)), spoken.text
    body = {"model": "media/brush-1", "prompt": "A dot", "response_format": "b64_json"}
    painted = post(gateway, "/v1/images/generations", body)
    assert base64.b64decode(painted.json()["data"][0]["b64_json"]) == PNG
    assert send_request(gateway, "media/brush-1").json()["error"]["code"] == "operation_not_supported"


def test_a_file_is_sent_in_a_form(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps({"heard": "Good day", "seconds": 1.5})))
    files = {"file": ("speech.wav", b"RIFF" + bytes(100_000), "audio/wav")}
    data = {"model": "hearing-1", "language": "en", "prompt": "Greetings"}
    url = f"{gateway.url}/v1/audio/transcriptions"
    response = httpx.post(url, data=data, files=files, headers=HEADERS, trust_env=False, timeout=30)
    assert response.json()["text"] == "Good day", response.text
    assert response.headers["x-gate-loss"] == "prompt"
    (request,) = upstream.requests
    assert request.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert bytes(100_000) in request.body
    assert b'name="tongue"\r\n\r\nen\r\n' in request.body


def test_many_embeddings_are_split_and_joined(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps({"vectors": [[1.0, 2.0]] * 2, "tokens": 2}), repeat=True))
    body = {"model": "vectors-1", "input": ["a", "b", "c", "d"], "encoding_format": "float"}
    response = post(gateway, "/v1/embeddings", body)
    assert [one["embedding"] for one in response.json()["data"]] == [[1.0, 2.0]] * 4, response.text
    assert sorted(request.json["texts"] for request in upstream.requests) == [["a", "b"], ["c", "d"]]


def test_error_codes_in_successful_answers(gateway: Gateway, upstream: Upstream) -> None:
    for code, status in ((1001, 502), (1002, 429), (1003, 503), (1004, 400), (9999, 502)):
        upstream.script(answer(json.dumps({"code": code, "message": "what the vendor says"})))
        response = send_request(gateway, "coded-1")
        assert response.status_code == status, f"{code}: {response.text}"
        assert ("what the vendor says" in response.text) == (status in (400, 429)), f"{code}: {response.text}"
    upstream.script(answer(json.dumps({"code": 0, "text": "Good day"})))
    assert text_of(send_request(gateway, "coded-1")) == "Good day"


def test_a_lost_request_is_repeated_with_the_same_key(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(Reset()), answer("{}", status=503), answer(TEXT), answer(TEXT))
    assert text_of(send_request(gateway, "careful-1")) == "Good day"
    assert text_of(send_request(gateway, "careful-1")) == "Good day"
    *same, other = [request.headers["idempotency-key"] for request in upstream.requests]
    assert (len(same), len(set(same)), other in same) == (3, 1, False)


def test_a_guard_gives_the_vendor_placeholders_and_the_caller_the_addresses(
    gateway: Gateway, upstream: Upstream
) -> None:
    words = "I have written to (email-1) and (email-2), not to (email-7)."
    pieces = [{"text": words[:end]} for end in range(1, len(words))]
    upstream.script(answer(sse(*pieces, {"text": words, "complete": True}), repeat=True))
    asked = [{"role": "user", "content": "Write to ann@example.org, bob@example.org and ann@example.org."}]
    expected = "I have written to ann@example.org and bob@example.org, not to (email-7)."
    assert text_of(send_request(gateway, "growing-1", messages=asked)) == expected
    streamed = send_request(gateway, "growing-1", messages=asked, stream=True).text
    chunks = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == expected
    for request in upstream.requests:
        assert request.json["lines"] == [["user", "Write to (email-1), (email-2) and (email-1)."]]
