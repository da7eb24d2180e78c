"""The order of the checks of a request is the same on every route: 401, 404, 429, 400 for the fields of the body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway

CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {"local-*": {provider: local, model: "local-*"}}
defaults: {moderation: local-moderation, images: local-image-1}
keys:
  - {name: free, key: free-key-of-order}
  - {name: used, key: used-key-of-order, requests_per_minute: 1}
"""
WRONG: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "local-chat", "messages": []},
    "/v1/messages": {"model": "local-chat", "messages": []},
    "/v1/responses": {"model": "local-chat", "input": 5},
    "/v1/completions": {"model": "local-chat", "prompt": 5},
    "/v1/embeddings": {"model": "local-embed", "input": 5},
    "/v1/engines/local-embed/embeddings": {"input": 5},
    "/v1/moderations": {"model": "local-moderation", "input": 5},
    "/v1/images/generations": {"model": "local-image-1", "prompt": 5},
    "/v1/images/edits": {"model": "local-image-edit", "input": 5},
    "/v1/audio/speech": {"model": "local-tts", "input": 5},
    "/v1/videos": {"model": "local-video", "prompt": 5},
    "/v1/video/generations": {"model": "local-video", "prompt": 5},
    "/vendor/v1/videos/text2video": {"model": "local-video", "prompt": 5},
    "/vendor/v1/videos/image2video": {"model": "local-video", "prompt": "a fox"},
    "/v1beta/models/local-chat:generateContent": {"contents": 5},
    "/v1beta/models/local-embed:embedContent": {"content": 5},
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF, tmp_path_factory.mktemp("order"))
    yield gateway
    gateway.stop()


def send(gateway: Gateway, key: str, path: str, body: dict[str, Any]) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {key}-key-of-order", "anthropic-version": "2023-06-01"}
    response = httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False)
    return response.status_code, response.json()["error"]["code"] if response.status_code != 200 else ""


def test_a_used_up_limit_is_named_before_faults_of_the_body_and_after_those_of_the_model(gateway: Gateway) -> None:
    chat = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}]}
    for path, body in WRONG.items():
        assert send(gateway, "used", path, body)[0] == 400, path  # a refused body uses no limit
    assert send(gateway, "used", "/v1/chat/completions", chat) == (200, "")
    wrong = []
    for path, body in WRONG.items():
        missing = {**body, "model": "missing"} if "model" in body else body
        no_model = path.replace("local-chat", "missing").replace("local-embed", "missing")
        statuses = (
            send(gateway, "no", no_model, missing),
            send(gateway, "used", no_model, missing),
            send(gateway, "used", path, body),
            send(gateway, "free", path, body)[0],
        )
        if statuses != ((401, "invalid_api_key"), (404, "model_not_found"), (429, "rate_limited"), 400):
            wrong.append((path, statuses))
    assert not wrong
