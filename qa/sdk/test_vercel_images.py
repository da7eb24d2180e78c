"""Pictures by Vercel's AI SDK, which reads base64 only: it asks for base64 of old models and nothing of new ones and of edits."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from qa.sdk.media_files import decoded, picture_file
from tests.support.gateway import Gateway
from tests.support.node import run_script

KEY = "test-key-of-vercel-images"
CONF = f"""
plugins: {{local: true}}
providers:
  local: {{plugin: local}}
models:
  gpt-image-1: {{provider: local, model: local-image-3}}
  dall-e-2: {{provider: local, model: local-image-1}}
  local-image-edit: {{provider: local}}
keys:
  - {{name: test, key: {KEY}}}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF, tmp_path_factory.mktemp("vercel-images"))
    yield gateway
    gateway.stop()


@pytest.mark.parametrize(
    ("model", "given"),
    [("gpt-image-1", []), ("dall-e-2", []), ("local-image-edit", [picture_file((256, 256))])],
)
def test_pictures_are_read(gateway: Gateway, model: str, given: list[bytes]) -> None:
    args: Any = [base64.b64encode(picture).decode() for picture in given]
    (picture,) = run_script("vercel-image.mjs", gateway.url, KEY, model, *args)
    assert picture["mediaType"] == "image/png"
    assert decoded(picture["base64"]).format == "PNG"
