"""Every example of /openapi.json with a few places changed is translated for any provider, or refused with a 4xx: no crash."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qa.fuzz.mutations import mutate
from tests.support.gates import open_key_store
from tornado_gate.codec import json_body
from tornado_gate.config import load
from tornado_gate.errors import GateError
from tornado_gate.pipeline.explain import check_request
from tornado_gate.pipeline.gate import Gate
from tornado_gate.plugins.host import PluginHost
from tornado_gate.server.openapi.document import build_document
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.testing import wire_request
from tornado_gate.types import Call, Caller, Route

CONF = """
server: {access_log: false}
plugins: {local: true, openai: true, anthropic: true, gemini: true, dashscope: true, kling: true}
providers:
  local: {plugin: local}
  o: {plugin: openai, base_url: "http://127.0.0.1:1/v1", api_key: upstream-key-0123456789}
  a: {plugin: anthropic, base_url: "http://127.0.0.1:1", api_key: upstream-key-0123456789}
  g: {plugin: gemini, base_url: "http://127.0.0.1:1", api_key: upstream-key-0123456789}
  d: {plugin: dashscope, base_url: "http://127.0.0.1:1", api_key: upstream-key-0123456789}
  k: {plugin: kling, base_url: "http://127.0.0.1:1", api_key: "access-key-01:secret-key-0123456789"}
models:
  "local-*": {provider: local, model: "local-*"}
  "o/*": {provider: o}
  "a/*": {provider: a}
  "g/*": {provider: g}
  "d/*": {provider: d}
  "k/*": {provider: k}
defaults: {moderation: local-moderation, images: local-image-1, images_three: local-image-3, image_edits: local-image-edit}
"""
MODELS = (
    "o/gpt-4o", "o/gpt-5", "o/gpt-image-1", "o/dall-e-3", "o/text-embedding-3-small", "o/tts-1", "o/sora-2",
    "a/claude-sonnet-4-5", "a/claude-opus-4-1", "g/gemini-2.5-flash",
    "g/gemini-3-pro-preview", "g/gemini-embedding-001", "g/veo-3.1-generate-preview",
    "g/gemini-2.5-flash-image", "d/qwen-image", "k/kling-v1", "local-chat", "local-embed", "local-image-1", "local-image-3",
    "local-image-edit", "local-tts", "local-video", "local-moderation",
)  # fmt: skip
OURS = Caller(id="key_fuzz", account="fuzz", name="fuzz")


@dataclass(frozen=True, slots=True)
class Example:
    """An example body of a route."""

    route: Route
    format: str
    body: Any


@dataclass(frozen=True, slots=True)
class Stage:
    """A gate that answers nothing, and the examples of its routes."""

    gate: Gate
    examples: dict[str, list[Example]]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("fuzz")
    file = folder / "gate.yaml"
    file.write_text(CONF)
    store = open_key_store(folder)
    gate = Gate(load(file, {}), PluginHost(), store, Metrics())
    yield Stage(gate, find_examples(gate))
    store.close()


def find_examples(gate: Gate) -> dict[str, list[Example]]:
    """The examples by path."""
    served = {(one.route.method, one.route.path): one for one in gate.snapshot.routes.__iter__()}
    found: dict[str, list[Example]] = {}
    for path, operations in build_document(gate.snapshot)["paths"].items():
        one = served.get(("POST", path))
        if one is None or one.route.model == "none":
            continue
        content = operations["post"].get("requestBody", {}).get("content", {}).get("application/json", {})
        found[path] = [
            Example(one.route, one.format, example["value"]) for example in content.get("examples", {}).values()
        ]
    return {path: examples for path, examples in found.items() if examples}


PATHS = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/images/generations", "/v1/images/edits",
    "/v1/moderations", "/v1/audio/speech", "/v1/videos", "/v1/messages", "/v1/messages/count_tokens",
    "/v1beta/models/{model}:generateContent", "/v1beta/models/{model}:streamGenerateContent", "/v1beta/interactions",
    "/v1beta/models/{model}:embedContent", "/v1beta/models/{model}:batchEmbedContents", "/v1beta/models/{model}:countTokens",
    "/v1/responses/compact", "/v1/responses/input_tokens", "/v1/engines/{model}/embeddings", "/v1/video/generations",
    "/vendor/v1/videos/text2video", "/vendor/v1/videos/image2video",
)  # fmt: skip


def test_every_route_with_an_example_is_fuzzed(stage: Stage) -> None:
    assert set(stage.examples) == set(PATHS)


async def check(gate: Gate, example: Example, model: str, body: Any) -> int:
    """The status that a caller gets before an upstream is called; 200 if nothing is wrong."""
    route = example.route
    named = {"model": model} if "{model}" in route.path else {}
    if isinstance(body, dict) and "model" in body:
        body = {**body, "model": model}
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    call = Call(id="req_fuzz", operation=route.operation, format=example.format, model="", caller=OURS, headers=headers)
    try:
        raw = json.dumps(body).encode()
        wire = wire_request(route, raw, path_arguments=named, headers=headers, json=json_body.load_object(raw))
        await check_request(gate, gate.snapshot, call, wire)
    except GateError as error:
        assert isinstance(error.message, str)
        json.loads(gate.snapshot.formats[example.format].translate_error(call, error))
        return error.status
    return 200


@pytest.mark.parametrize("path", PATHS)
def test_the_examples_themselves_are_accepted_by_a_model(stage: Stage, path: str) -> None:
    for example in stage.examples[path]:
        statuses = {model: asyncio.run(check(stage.gate, example, model, example.body)) for model in MODELS}
        assert 200 in statuses.values() or _needs_state(example.body), f"{example.body}: {statuses}"
        assert all(status < 500 for status in statuses.values())


def _needs_state(body: Any) -> bool:
    """Whether an example names a stored object, which this gate does not have."""
    return bool(re.search(r"previous_|conversation|_id\"", json.dumps(body)))


@pytest.mark.parametrize("path", PATHS)
@given(data=st.data())
@settings(max_examples=12)
def test_a_changed_body_is_translated_or_refused(stage: Stage, path: str, data: st.DataObject) -> None:
    example = data.draw(st.sampled_from(stage.examples[path]))
    body = data.draw(mutate(example.body))
    model = data.draw(st.sampled_from(MODELS))
    assert asyncio.run(check(stage.gate, example, model, body)) < 500
