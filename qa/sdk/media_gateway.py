"""One gateway for the tests of every route beyond chat, and how they ask it without an SDK.

A module that wants the fixture says ``media = media_gateway.media``. The gateway is the same for all of them.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

KEY = "test-key-of-the-media-tests"
UPSTREAM_KEY = "scripted-key"

# Names of one wildcard share a circuit: upstreams that fail on purpose have a gateway of their own.
CONF = """
plugins: {{local: true, openai: true, gemini: true, dashscope: true}}
providers:
  local: {{plugin: local}}
  scripted: {{plugin: openai, preset: openai, base_url: "{scripted}/v1", api_key: "{upstream_key}"}}
  scripted-gemini: {{plugin: gemini, base_url: "{scripted}", api_key: "{upstream_key}"}}
  scripted-dash: {{plugin: dashscope, base_url: "{scripted}", api_key: "{upstream_key}", poll_seconds: 0.01}}
models:
  local-chat: {{provider: local}}
  local-embed: {{provider: local}}
  local-moderation: {{provider: local}}
  text-moderation-latest: {{provider: local, model: local-moderation}}
  text-moderation-stable: {{provider: local, model: local-moderation}}
  local-image-1: {{provider: local, image_family: one}}
  local-image-2: {{provider: local, image_family: two}}
  local-image-3: {{provider: local, image_family: three}}
  local-image-edit: {{provider: local}}
  local-tts: {{provider: local}}
  "scripted/*": {{provider: scripted}}
  "scripted-gemini/*": {{provider: scripted-gemini}}
  "scripted-dash/*": {{provider: scripted-dash}}
keys:
  - {{name: test, key: "{key}"}}
defaults:
  moderation: local-moderation
  images: local-image-1
  images_three: local-image-3
  image_edits: local-image-edit
fetch: {{allow_private: true}}
"""

_STARTED = pytest.StashKey[Gateway]()
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Got:
    """An answer of any status; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, str]:
        """What the error says, after a look at its shape: four strings."""
        error: dict[str, str] = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert all(isinstance(value, str) for value in error.values())
        return error


def get(url: str, **headers: str) -> Got:
    """GET without a key; underscores of header names are hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return _fetch(urllib.request.Request(url, headers=named))


def post(gateway: Gateway, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Got:
    """POST JSON, or bytes as they are, with the key. It names no SDK, so that it gets the contract's dialect."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **(headers or {})}
    return _fetch(urllib.request.Request(gateway.url + path, data=data, headers=given, method="POST"))


def _fetch(request: urllib.request.Request) -> Got:
    try:
        with _direct.open(request, timeout=20) as answer:
            return Got(answer.status, _lower(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Got(error.code, _lower(error.headers), error.read())


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@pytest.fixture(scope="session")
def media(
    request: pytest.FixtureRequest, upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """A gateway that serves the embedded models, and the scripted upstream as OpenAI, Gemini and Model Studio."""
    stash = request.config.stash
    if _STARTED not in stash:
        conf = CONF.format(scripted=upstream_process.url, upstream_key=UPSTREAM_KEY, key=KEY)
        stash[_STARTED] = Gateway.start(conf, tmp_path_factory.mktemp("media"))
        request.session.addfinalizer(stash[_STARTED].stop)
    return stash[_STARTED]
