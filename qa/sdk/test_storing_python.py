"""The section ``responses`` of conf: what the gateway and its upstreams store of responses and chats, by openai-python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import completion
from tests.support.stored_responses import response
from tests.support.upstream import Upstream, answer

KEY = "test-key-of-the-storing-tests"
PROMPT = "the-prompt-that-must-not-be-found"
CONF = """
plugins: {{openai: true}}
providers:
  keeps: {{plugin: openai, base_url: "{url}/keeps", api_key: upstream-key-0123456789, responses: true}}
  chats: {{plugin: openai, base_url: "{url}/chats", api_key: upstream-key-0123456789}}
models:
  verbatim: {{provider: keeps}}
  translated: {{provider: chats}}
keys:
  - {{name: a, key: "{key}"}}
"""
MODES = ("never", "ask", "default")
STORES: Any = (None, True, False)


@pytest.fixture(scope="module")
def gateways(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Gateway]]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    started = {}
    for mode in MODES:
        section = "" if mode == "default" else f"responses: {{store: {mode}}}\n"
        started[mode] = Gateway.start(conf + section, tmp_path_factory.mktemp(mode))
    yield started
    for gateway in started.values():
        gateway.stop()


def is_stored(mode: str, store: bool | None) -> bool:
    return {"never": False, "ask": store is True, "default": store is not False}[mode]


def post(gateway: Gateway, path: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
    headers = {"authorization": f"Bearer {KEY}", "user-agent": "OpenAI/Python 3.52.0", **headers}
    return httpx2.post(f"{gateway.url}/v1{path}", json=body, headers=headers, timeout=20)


def body_of(model: str, store: bool | None, **fields: Any) -> dict[str, Any]:
    return {"model": model, "input": PROMPT, **({} if store is None else {"store": store}), **fields}


def files_contain(gateway: Gateway, text: str) -> bool:
    """Whether a file below the gateway's data folder contains a text."""
    return any(text.encode() in file.read_bytes() for file in (gateway.folder / "var").rglob("*") if file.is_file())


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("mode", MODES)
def test_upstream_stores_what_conf_allows(
    gateways: dict[str, Gateway], upstream: Upstream, mode: str, store: bool | None
) -> None:
    upstream.script(answer(json.dumps(response("stored"))))
    body = body_of("verbatim", store)
    found = post(gateways[mode], "/responses", body)
    assert found.status_code == 200
    (sent,) = upstream.requests
    expected = body if is_stored(mode, store) or store is False else {**body, "store": False}
    assert sent.json == expected
    assert found.headers.get("x-gate-loss") == ("store" if (mode, store) == ("never", True) else None)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("mode", MODES)
def test_gateway_stores_what_conf_allows(
    gateways: dict[str, Gateway], upstream: Upstream, mode: str, store: bool | None
) -> None:
    prompt = f"{PROMPT}-{mode}-{store}"
    upstream.script(answer(completion("Hello")))
    made = post(gateways[mode], "/responses", {**body_of("translated", store), "input": prompt})
    assert made.json()["store"] is is_stored(mode, store)
    assert files_contain(gateways[mode], prompt) is is_stored(mode, store)
    with openai.OpenAI(base_url=f"{gateways[mode].url}/v1", api_key=KEY, max_retries=0) as client:
        if is_stored(mode, store):
            assert client.responses.retrieve(made.json()["id"]).output_text == "Hello"
        else:
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(made.json()["id"])


@pytest.mark.parametrize("model", ["verbatim", "translated"])
def test_a_client_that_insists_on_storing_is_refused(
    gateways: dict[str, Gateway], upstream: Upstream, model: str
) -> None:
    found = post(gateways["never"], "/responses", body_of(model, True), **{"x-gate-strict": "1"})
    assert (found.status_code, found.json()["error"]["param"]) == (400, "store")
    assert upstream.requests == []


@pytest.mark.parametrize("model", ["verbatim", "translated"])
def test_a_conversation_cannot_be_continued_where_nothing_is_stored(gateways: dict[str, Gateway], model: str) -> None:
    error = post(gateways["never"], "/responses", body_of(model, None, previous_response_id="resp_x")).json()["error"]
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")
    assert "responses: {store: never}" in error["message"]


@pytest.mark.parametrize("mode", ["never", "ask"])
def test_background_needs_a_stored_response(gateways: dict[str, Gateway], upstream: Upstream, mode: str) -> None:
    error = post(gateways[mode], "/responses", body_of("verbatim", None, background=True)).json()["error"]
    assert error["param"] == "background"
    assert f"store: {mode}" in error["message"]
    assert upstream.requests == []


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", ["verbatim", "translated"])
def test_chats_are_stored_as_conf_allows(
    gateways: dict[str, Gateway], upstream: Upstream, model: str, mode: str, store: bool | None
) -> None:
    """A vendor with stored responses may store chats by default; another may not know the member at all."""
    upstream.script(answer(completion("Hello")))
    prompt = f"{PROMPT}-of-a-chat"
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        **({} if store is None else {"store": store}),
    }
    assert post(gateways[mode], "/chat/completions", body).status_code == 200
    sent = upstream.requests[0].json.get("store")
    if mode == "default" or store is False or is_stored(mode, store):
        assert sent == store
    else:
        assert sent == (False if store or model == "verbatim" else None)
    assert not files_contain(gateways[mode], prompt)
