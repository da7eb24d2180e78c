"""The recipes: examples of SDKs run as they are printed, and settings of applications lead to requests that are answered."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.docs.pages import Block, read_blocks
from tests.support.gateway import Gateway
from tests.support.node import COMPILE_CACHE, FOLDER, NODE

pytestmark = pytest.mark.qa
KEY = "key-of-the-recipes-0123456789"
PRINTED_URL = "http://127.0.0.1:8080"
NAMES = ("local-chat", "local-embed", "local-image-1", "local-tts")
CONF = json.dumps(
    {
        "plugins": {"local": True},
        "providers": {"local": {"plugin": "local"}},
        "models": {name: {"provider": "local"} for name in NAMES},
        "keys": [{"name": "app", "key": KEY}],
    }
)
SDKS = [block for block in read_blocks("recipes/README.md") if block.language in ("python", "js")]
MESSAGES = [{"role": "user", "content": "Say hello"}]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF, tmp_path_factory.mktemp("recipes"))
    yield started
    started.stop()


@pytest.mark.parametrize("block", SDKS, ids=[f"{block.language}-line-{block.line}" for block in SDKS])
def test_an_example_of_an_sdk_prints_an_answer(gateway: Gateway, block: Block) -> None:
    code = block.text.replace(PRINTED_URL, gateway.url)
    python = [sys.executable, "-c", code]
    command = python if block.language == "python" else [str(NODE), "--input-type=module", "-e", code]
    done = subprocess.run(
        command,
        cwd=FOLDER,
        env={**os.environ, **COMPILE_CACHE, "GATE_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Hello" in done.stdout


def read_settings(gateway: Gateway, heading: str) -> str:
    """The settings below a heading of the page, with the address and the key of the test's gateway."""
    page = (Path(__file__).parents[2] / "docs/recipes/applications.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.search(r"^```\w+\n(.*?)^```$", section, re.M | re.S)
    assert found is not None
    settings = found[1].replace(PRINTED_URL, gateway.url)
    return re.sub(r"\$\{\{ secrets\.GATE_KEY \}\}|\$\{GATE_KEY\}|\$GATE_KEY", KEY, settings)


def ask(url: str, key: str, body: Any = None, **headers: str) -> httpx.Response:
    """Send a request as the applications do: with the key as a bearer token."""
    method = "GET" if body is None else "POST"
    response = httpx.request(method, url, headers={"Authorization": f"Bearer {key}", **headers}, json=body, timeout=60)
    assert response.status_code == 200, response.text
    return response


def check_chat(base: str, key: str, model: str, **headers: str) -> None:
    """Stream a chat, with the usage at its end."""
    body = {"model": model, "messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
    response = ask(f"{base}/chat/completions", key, body, **headers)
    events = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["usage"]["total_tokens"] > 0


def list_models(base: str, key: str) -> set[str]:
    return {model["id"] for model in ask(f"{base}/models", key).json()["data"]}


def test_open_webui(gateway: Gateway) -> None:
    lines = [line for line in read_settings(gateway, "Open WebUI").splitlines() if not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines)
    base, key = settings["OPENAI_API_BASE_URL"], settings["OPENAI_API_KEY"]
    assert list_models(base, key) == set(NAMES)
    check_chat(base, key, "local-chat", **{"X-OpenWebUI-User-Id": "ann", "X-OpenWebUI-User-Name": "Ann"})
    texts = {"model": settings["RAG_EMBEDDING_MODEL"], "input": ["a", "b"]}
    picture = {"model": settings["IMAGE_GENERATION_MODEL"], "prompt": "a cat", "n": 1, "size": "512x512"}
    speech = {"model": settings["AUDIO_TTS_MODEL"], "input": "Hello", "voice": "alloy"}
    for feature, route, body in (
        ("RAG", "embeddings", texts),
        ("IMAGES", "images/generations", picture),
        ("AUDIO_TTS", "audio/speech", speech),
    ):  # each has an address and a key of its own
        address, own_key = settings[f"{feature}_OPENAI_API_BASE_URL"], settings[f"{feature}_OPENAI_API_KEY"]
        assert ask(f"{address}/{route}", own_key, body).content


def test_librechat(gateway: Gateway) -> None:
    (entry,) = yaml.safe_load(read_settings(gateway, "LibreChat"))["endpoints"]["custom"]
    base, key = entry["baseURL"], entry["apiKey"]
    assert set(entry["models"]["default"]) <= list_models(base, key)
    headers = {name: re.sub(r"\{\{\w+\}\}", "0c3f", value) for name, value in entry["headers"].items()}
    check_chat(base, key, entry["titleModel"], **headers)


def test_continue(gateway: Gateway) -> None:
    chat, embeddings = yaml.safe_load(read_settings(gateway, "Continue"))["models"]
    assert (chat["roles"][0], embeddings["roles"]) == ("chat", ["embed"])
    check_chat(chat["apiBase"], chat["apiKey"], chat["model"])
    ask(f"{embeddings['apiBase']}/embeddings", embeddings["apiKey"], {"model": embeddings["model"], "input": ["a"]})


def test_n8n(gateway: Gateway) -> None:
    settings = yaml.safe_load(read_settings(gateway, "n8n"))
    base, key = settings["Base URL"], settings["API Key"]
    assert "local-chat" in list_models(base, key)
    check_chat(base, key, "local-chat", **{"x-gate-tags": "n8n"})
    response = ask(f"{base}/responses", key, {"model": "local-chat", "input": "Say hello"}).json()
    assert response["output"][0]["content"][0]["text"]
