"""A signed address that the gateway handed out is an image that it accepts, by whichever host it names."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.lanes import generated
from tests.support.scripts import completion
from tests.support.upstream import Upstream, answer
from tornado_gate.storage.files import load_media_secret
from tornado_gate.storage.media_folder import MediaFolder

KEY = "test-key-of-own-addresses"
CONF = """
plugins: {{local: true, gemini: true, openai: true}}
providers:
  local: {{plugin: local}}
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
models:
  local-image-1: {{provider: local}}
  local-video: {{provider: local}}
  g: {{provider: g}}
  o: {{provider: o}}
keys: [{{name: test, key: {key}}}, {{name: other, key: other-{key}}}]
"""


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    started = Gateway.start(conf, tmp_path_factory.mktemp("own-addresses"))
    yield started
    started.stop()


def post(gateway: Gateway, path: str, body: dict[str, object], key: str = KEY) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False, timeout=60)


@pytest.fixture(scope="module")
def address(gateway: Gateway) -> str:
    """The address of an image that the gateway made."""
    body: dict[str, object] = {"model": "local-image-1", "prompt": "a cat", "size": "256x256"}
    made = post(gateway, "/v1/images/generations", body)
    assert made.status_code == 200, made.text
    url: str = made.json()["data"][0]["url"]
    assert url.startswith(gateway.url)
    return url


def edit(gateway: Gateway, url: str, key: str = KEY) -> httpx.Response:
    body: dict[str, object] = {"model": "local-image-1", "prompt": "a dog", "images": [{"image_url": url}]}
    return post(gateway, "/v1/images/edits", body, key)


def test_an_own_image_can_be_edited(gateway: Gateway, address: str) -> None:
    edited = edit(gateway, address)
    assert edited.status_code == 200, edited.text


def test_the_host_does_not_matter_and_the_signature_is_the_permission(gateway: Gateway, address: str) -> None:
    parts = urlsplit(address)
    elsewhere = f"https://gate.example{parts.path}?{parts.query}"
    assert edit(gateway, elsewhere, f"other-{KEY}").status_code == 200


def test_an_own_image_is_a_part_of_a_chat_for_an_upstream_that_takes_addresses(
    gateway: Gateway, address: str, upstream: Upstream
) -> None:
    upstream.script(answer(completion("A cat.")))
    content = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": address}}]
    body: dict[str, object] = {"model": "o", "messages": [{"role": "user", "content": content}]}
    assert post(gateway, "/v1/chat/completions", body).status_code == 200
    parts = upstream.requests[0].json["messages"][0]["content"]
    assert parts[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert upstream.requests[0].json["model"] == "o"


def test_an_own_image_is_a_part_of_a_chat(gateway: Gateway, address: str, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps(generated("A cat."))))
    content = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": address}}]
    body: dict[str, object] = {"model": "g", "messages": [{"role": "user", "content": content}]}
    assert post(gateway, "/v1/chat/completions", body).status_code == 200
    parts = upstream.requests[0].json["contents"][0]["parts"]
    assert parts[1]["inlineData"]["mimeType"] == "image/png"


def test_an_own_image_begins_a_video(gateway: Gateway, address: str) -> None:
    body: dict[str, object] = {
        "model": "local-video", "prompt": "a cat", "seconds": "1", "size": "64x64", "input_reference": {"image_url": address},
    }  # fmt: skip
    created = post(gateway, "/v1/videos", body)
    assert created.status_code == 200, created.text


def test_an_expired_own_address_says_so(gateway: Gateway, address: str) -> None:
    file_id = urlsplit(address).path.rpartition("/")[2]
    store = MediaFolder(gateway.folder / "var" / "media", secret=load_media_secret(gateway.folder / "var"))
    expired = edit(gateway, gateway.url + store.sign(file_id, time.time() - 1))
    assert (expired.status_code, expired.json()["error"]["code"]) == (400, "file_expired")
    deleted = edit(gateway, gateway.url + store.sign("0" * 32 + ".png", time.time() + 60))
    assert (deleted.status_code, deleted.json()["error"]["code"]) == (400, "file_expired")


def test_an_address_that_the_gateway_has_not_signed_is_fetched_like_any_other(gateway: Gateway, address: str) -> None:
    forged = edit(gateway, address[:-1] + ("0" if address[-1] != "0" else "1"))
    assert (forged.status_code, forged.json()["error"]["code"]) == (400, "private_address")


def test_another_kind_of_file_is_no_image(gateway: Gateway, tmp_path: Path) -> None:
    folder = gateway.folder / "var" / "media"
    store = MediaFolder(folder, secret=load_media_secret(gateway.folder / "var"))
    name = "a" * 32 + ".mp3"
    now = time.time()
    (folder / name).write_bytes(b"ID3\x03" + b"\0" * 60)
    about = {"id": name, "size": 64, "media_type": "audio/mpeg", "name": "", "created": now, "expires": now + 60}
    (folder / f"{name}.about").write_text(json.dumps(about))
    refused = edit(gateway, gateway.url + store.sign(name, now + 60))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "wrong_media_type")
