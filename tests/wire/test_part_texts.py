"""Blocks of plain text that only Anthropic's format has, as texts for models of every other format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tornado_gate.errors import InvalidField
from tornado_gate.testing import call_to, target_of
from tornado_gate.types import Call
from tornado_gate_anthropic.wire import messages
from tornado_gate_gemini.wire import generate
from tornado_gate_openai.wire import chat, responses

RESULT: dict[str, Any] = {
    "type": "search_result",
    "source": "https://pages.example/",
    "title": "Tower",
    "content": [{"type": "text", "text": "It is 330 m high."}],
}
RESULT_TEXT = "Search result: Tower\nSource: https://pages.example/\n\nIt is 330 m high.\n"
PICTURE = {"type": "image", "source": {"type": "url", "url": "https://pictures.example/a.png"}}
DOCUMENT: dict[str, Any] = {
    "type": "document",
    "source": {"type": "content", "content": [{"type": "text", "text": "One."}, PICTURE, {"type": "text", "text": "Two."}]},
    "title": "Notes",
    "context": "of a visit",
}  # fmt: skip
DOCUMENT_TEXT = "Document: Notes\nContext: of a visit\n\nOne.\nTwo.\n"
REFERENCE = {"type": "tool_reference", "tool_name": "NotebookEdit"}
REFERENCE_TEXT = "Found the tool NotebookEdit; it can be called now."
UPLOAD = {"type": "container_upload", "file_id": "f"}
Render = Callable[[Call, Any], dict[str, Any]]
RENDERERS: dict[str, Render] = {
    "chat": chat.render_request,
    "responses": responses.render_request,
    "gemini": generate.render_request,
}


def ask(render: Render, *turns: list[dict[str, Any]] | str) -> tuple[dict[str, Any], list[str]]:
    call = call_to(model="m", target=target_of(upstream_model="up"))
    values = [{"role": "user", "content": turn} for turn in turns]
    return render(call, messages.parse_request({"model": "m", "max_tokens": 9, "messages": values})), call.losses


def read_texts(value: Any) -> list[str]:
    """All values of members named ``text`` and of contents and outputs that are strings, in order."""
    if isinstance(value, list):
        return [text for item in value for text in read_texts(item)]
    if not isinstance(value, dict):
        return []
    texts: list[str] = []
    for name, member in value.items():
        named = name in ("text", "content", "output", "result")
        texts += [member] if named and isinstance(member, str) else read_texts(member)
    return texts


@pytest.mark.parametrize("name", RENDERERS)
@pytest.mark.parametrize(
    ("block", "text", "losses"),
    [
        (RESULT, RESULT_TEXT, []),
        ({**RESULT, "citations": {"enabled": False}}, RESULT_TEXT, []),
        ({**RESULT, "citations": {"enabled": True}}, RESULT_TEXT, ["messages.0.content.1.citations"]),
        ({**RESULT, "odd": 1}, RESULT_TEXT, ["messages.0.content.1.odd"]),
        (
            {**RESULT, "content": [{"type": "text", "text": "It is 330 m high.", "odd": 1}]},
            RESULT_TEXT,
            ["messages.0.content.1.content.0.odd"],
        ),
        (DOCUMENT, DOCUMENT_TEXT, ["messages.0.content.1.source.content.1"]),
        ({"type": "document", "source": {"type": "content", "content": "All."}}, "All.\n", []),
        (
            {"type": "document", "source": {"type": "content", "content": "All.", "odd": 1}},
            "All.\n",
            ["messages.0.content.1.source.odd"],
        ),
        ({**RESULT, "content": []}, None, ["messages.0.content.1"]),
        ({"type": "document", "source": {"type": "content", "content": [PICTURE]}}, None, ["messages.0.content.1"]),
    ],
)
def test_a_block_of_text_is_a_text_with_its_title_and_source(
    name: str, block: dict[str, Any], text: str | None, losses: list[str]
) -> None:
    body, reported = ask(RENDERERS[name], [{"type": "text", "text": "Look:"}, block])
    assert read_texts(body) == ["Look:"] + ([text] if text else [])
    assert reported == losses


@pytest.mark.parametrize("name", RENDERERS)
def test_blocks_of_text_stay_in_their_tool_result(name: str) -> None:
    """As claude-code 2.1 answers a search: the result has references to the tools that it now declares."""
    content = [{**REFERENCE, "odd": 1}, RESULT, {"type": "strange"}]
    result = {"type": "tool_result", "tool_use_id": "t", "content": content}
    body, losses = ask(RENDERERS[name], [result])
    assert "".join(read_texts(body)) == REFERENCE_TEXT + RESULT_TEXT
    assert sorted(losses) == ["messages.0.content.0.content.0.odd", "messages.0.content.0.content.2"]


@pytest.mark.parametrize("name", RENDERERS)
def test_a_message_of_which_nothing_is_left_is_not_sent(name: str) -> None:
    body, losses = ask(RENDERERS[name], "Hello", [UPLOAD])
    assert (read_texts(body), losses) == (["Hello"], ["messages.1.content.0"])
    with pytest.raises(InvalidField) as caught:
        ask(RENDERERS[name], [UPLOAD])
    assert caught.value.code == "empty_conversation"


def test_an_upstream_of_the_same_format_gets_the_blocks_themselves() -> None:
    blocks = [RESULT, DOCUMENT]
    body, losses = ask(messages.render_request, blocks)
    assert (body["messages"][0]["content"], losses) == (blocks, [])
