"""Thinking that a caller of anthropic-python asks for, from upstreams of other formats: shown, counted, or omitted if asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from qa.conformance.exchanges import running_site
from tests.support import vendor_answers
from tests.support.upstream import Answer, Upstream, answer, sse
from tests.support.vendor_chats import KEY

QUESTION: Any = [{"role": "user", "content": "Why is the sky blue?"}]
TOOLS: Any = [{"name": "look", "input_schema": {"type": "object"}}]
SIGNATURES = {"responses": "sealed", "generate": "c2lnbmF0dXJl"}


def reasoning_chat(*, streamed: bool, calls: bool) -> Answer:
    """A chat answer with ``reasoning_content``, as DeepSeek and others send it."""
    steps = vendor_answers.chat(streamed=streamed, calls=calls).steps
    if not streamed:
        body = json.loads(str(steps[0]))
        body["choices"][0]["message"]["reasoning_content"] = vendor_answers.THOUGHT
        return answer(json.dumps(body))
    frames = [line.removeprefix("data: ") for line in str(steps[0]).split("\n\n") if line]
    first = json.loads(frames[0])
    first["choices"][0]["delta"]["reasoning_content"] = vendor_answers.THOUGHT
    return answer(sse(first, *frames[1:]))


UPSTREAMS = {"chat": reasoning_chat, "responses": vendor_answers.responses, "generate": vendor_answers.generate}


@pytest.fixture(scope="module")
def client(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[anthropic.Anthropic]:
    with (
        running_site(tmp_path_factory.mktemp("thinking"), upstream_process) as url,
        anthropic.Anthropic(base_url=url, auth_token=KEY, max_retries=0, timeout=20) as client,
    ):
        yield client


def send_request(client: anthropic.Anthropic, name: str, *, streamed: bool, **thinking: Any) -> anthropic.types.Message:
    fields: Any = {
        "model": f"of-{name}",
        "max_tokens": 4000,
        "messages": QUESTION,
        "tools": TOOLS,
        "thinking": thinking,
    }
    if not streamed:
        whole: anthropic.types.Message = client.messages.create(**fields)
        return whole
    with client.messages.stream(**fields) as stream:
        return stream.get_final_message()


def without_searches(message: anthropic.types.Message) -> list[anthropic.types.ContentBlock]:
    """The content without the search of a grounded answer."""
    return [block for block in message.content if block.type not in ("server_tool_use", "web_search_tool_result")]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("thinking", [{"type": "enabled", "budget_tokens": 2000}, {"type": "adaptive"}])
@pytest.mark.parametrize("name", UPSTREAMS)
def test_thinking_is_shown_and_counted(
    client: anthropic.Anthropic, upstream: Upstream, name: str, thinking: dict[str, Any], streamed: bool
) -> None:
    for calls in (False, True):
        upstream.reset()
        upstream.script(UPSTREAMS[name](streamed=streamed, calls=calls))
        message = send_request(client, name, streamed=streamed, **thinking)
        thought, *rest = without_searches(message)
        assert thought.type == "thinking"
        assert thought.thinking == vendor_answers.THOUGHT
        assert [block.type for block in rest] == (["tool_use"] * 2 if calls else ["text"])
        assert message.usage.output_tokens == 12
        assert message.usage.output_tokens_details is not None
        assert message.usage.output_tokens_details.thinking_tokens == 6


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", UPSTREAMS)
def test_thinking_that_is_to_be_omitted_has_no_text_and_keeps_its_signature(
    client: anthropic.Anthropic, upstream: Upstream, name: str, streamed: bool
) -> None:
    upstream.script(UPSTREAMS[name](streamed=streamed, calls=False))
    message = send_request(client, name, streamed=streamed, type="adaptive", display="omitted")
    assert vendor_answers.THOUGHT not in message.to_json()
    *thoughts, text = without_searches(message)
    assert text.type == "text"
    assert text.text == vendor_answers.TEXT
    # Gemini's signature belongs to the text, whose next turn gets it back; a chat has none
    assert [(block.type, getattr(block, "signature", "")) for block in thoughts] == (
        [("thinking", "sealed")] if name == "responses" else []
    )
    assert message.usage.output_tokens_details is not None
    assert message.usage.output_tokens_details.thinking_tokens == 6


@pytest.mark.parametrize(("display", "blocks"), [("summarized", ["thinking", "text"]), ("omitted", ["text"])])
def test_the_embedded_model_omits_its_thinking_too(
    client: anthropic.Anthropic, display: Any, blocks: list[str]
) -> None:
    message = client.messages.create(
        model="local-chat", max_tokens=4000, messages=QUESTION, thinking={"type": "adaptive", "display": display}
    )
    assert [block.type for block in message.content] == blocks
