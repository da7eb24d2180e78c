"""The class that plugins for OpenAI-compatible APIs inherit: what a subclass can say, and what conf may say."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import orjson
import pytest
from marshmallow import Schema, fields

from tornado_gate import ProviderEntry, types
from tornado_gate.errors import ConfigError, UnsupportedOperation
from tornado_gate.testing import KEY, call_to, chat, load_provider
from tornado_gate.types import EmbeddingRequest, VerbatimRequest
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate_openai.compatible import OpenAICompatible
from tornado_gate_openai.wire import formats


class Settings(Schema):
    region = fields.String()


class Vendor(OpenAICompatible):
    default_base_url = "https://api.vendor.example"
    version_path = "api/v3"
    unsupported = ("seed", "store")
    renamed: ClassVar = {"max_completion_tokens": "max_tokens"}
    features = ChatFeatures(drops=("top_k",), longest_tool_name=8)
    settings_schema = Settings

    def get_headers(self, target: types.Target) -> dict[str, str]:
        return {**super().get_headers(target), "x-region": target.settings["region"]}


ENTRY = ProviderEntry(name="v", api_key=KEY, headers={"X-Team": "a"}, settings={"region": "eu"})


def translate(request: types.Request, plugin: type = Vendor) -> tuple[Any, list[str]]:
    lane = load_provider(plugin)
    call = call_to(lane, ENTRY)
    return asyncio.run(lane.translate_request(call, request)), call.losses


def forward(body: dict[str, Any]) -> VerbatimRequest:
    return VerbatimRequest(
        operation="chat",
        wire_format=formats.OPENAI_CHAT,
        path="/v1/chat/completions",
        raw=orjson.dumps(body),
        body=body,
    )


def test_a_forwarded_body_keeps_everything_but_what_the_vendor_rejects() -> None:
    body = {"model": "m", "messages": [], "strange": [1], "seed": 5, "store": None, "max_completion_tokens": 7}
    outgoing, losses = translate(forward(body))
    assert orjson.loads(outgoing.body) == {
        "model": "upstream-model",
        "messages": [],
        "strange": [1],
        "max_tokens": 7,
    }
    assert losses == ["seed"], "a member without a value is no loss"
    assert outgoing.url == "https://api.vendor.example/api/v3/chat/completions"
    assert outgoing.headers["authorization"] == f"Bearer {KEY}"
    assert (outgoing.headers["x-team"], outgoing.headers["x-region"]) == ("a", "eu")


def test_of_two_names_of_a_member_the_vendors_own_wins_and_another_value_is_reported() -> None:
    outgoing, losses = translate(forward({"model": "m", "max_completion_tokens": 7, "max_tokens": 8}))
    assert (orjson.loads(outgoing.body)["max_tokens"], losses) == (8, ["max_completion_tokens"])
    assert translate(forward({"model": "m", "max_completion_tokens": 8, "max_tokens": 8}))[1] == []


def test_a_body_that_needs_no_change_is_forwarded_byte_by_byte() -> None:
    request = forward({"model": "upstream-model", "messages": []})
    assert translate(request)[0].body is request.raw


def test_losses_of_a_translated_request_have_the_callers_names() -> None:
    names = {"seed": "generationConfig.seed", "top_k": "generationConfig.topK"}
    outgoing, losses = translate(chat("Hello", seed=1, top_k=2, max_tokens=3, names=names))
    assert sorted(losses) == ["generationConfig.seed", "generationConfig.topK"]
    assert outgoing.json == {
        "model": "upstream-model",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 3,
    }


def test_operations_that_the_vendor_does_not_have_are_refused() -> None:
    with pytest.raises(UnsupportedOperation):
        translate(EmbeddingRequest(model="m", inputs=("x",)))
    capabilities = load_provider(Vendor).configure(ENTRY)
    assert capabilities.operations == {"chat"}
    assert capabilities.speaks == {formats.OPENAI_CHAT}


@pytest.mark.parametrize(
    ("plugin", "entry", "fault"),
    [
        (OpenAICompatible, {}, "base_url.*is missing"),
        (OpenAICompatible, {"base_url": "ftp://x"}, "must be an http or https URL"),
        (OpenAICompatible, {"base_url": "http://x", "settings": {"region": "eu"}}, "region.*unknown key"),
        (Vendor, {"settings": {"regin": "eu"}}, "did you mean 'region'"),
    ],
)
def test_what_conf_may_not_say_is_a_fault(plugin: type, entry: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        load_provider(plugin).configure(ProviderEntry(name="v", **entry))
