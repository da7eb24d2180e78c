"""The vendors' SDKs see the thinking of a model of OpenAI, and send it back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from google import genai
from google.genai import types as google

from qa.imitations.openai.model_replies import SUMMARY
from qa.imitations.openai.run import KEY, Stage

THOUGHT = "\n\n".join(SUMMARY)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("imitation")) as opened:
        yield opened


@pytest.mark.parametrize("model", ["auto/gpt-5", "auto/gpt-5.6-sol"])
def test_anthropics_sdk_sees_the_thinking_and_continues_after_tools(stage: Stage, model: str) -> None:
    with anthropic.Anthropic(base_url=stage.gateway.url, api_key=KEY, max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
        members: dict[str, Any] = {
            "model": model,
            "max_tokens": 8000,
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "tools": [{"name": "look", "input_schema": SCHEMA}],
        }
        with client.messages.stream(messages=messages, **members) as stream:
            seen = "".join(event.thinking for event in stream if event.type == "thinking")
            first = stream.get_final_message()
        assert seen == THOUGHT
        use: Any = first.content[-1]
        assert (first.stop_reason, use.type) == ("tool_use", "tool_use")
        result = {"type": "tool_result", "tool_use_id": use.id, "content": "21 °C"}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        second = client.messages.create(messages=messages, **members)
    assert [block.type for block in second.content] == ["thinking", "text"]
    sent = stage.server.records[-1].request.json["input"]
    assert [item.get("type") for item in sent[1:]] == ["reasoning", "function_call", "function_call_output"]


@pytest.mark.parametrize("model", ["auto/gpt-5", "auto/gpt-5.6-sol"])
def test_googles_sdk_sees_the_thoughts_and_a_list(stage: Stage, model: str) -> None:
    client = genai.Client(api_key=KEY, http_options=google.HttpOptions(base_url=stage.gateway.url))
    thoughts = google.ThinkingConfig(include_thoughts=True)
    config = google.GenerateContentConfig(
        thinking_config=thoughts, response_mime_type="application/json", response_schema=list[str]
    )
    answer: Any = client.models.generate_content(model=model, contents="Name cities", config=config)
    assert "".join(part.text for part in answer.candidates[0].content.parts if part.thought) == THOUGHT
    assert answer.parsed == ["Zürich"]
    client.close()
