"""Citations and searches of every vendor reach callers of every other format, whole and streamed. Real gateway, vendors' SDKs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import anthropic
import openai
import pytest
from google import genai
from google.genai import types as genai_types

from tests.support.gateway import Gateway
from tests.support.searches import (
    A_ANSWER,
    A_CALL,
    A_RESULT,
    CITED,
    CONF,
    FIRST,
    O_ANNOTATION,
    QUERY,
    QUESTION,
    R_ANSWER,
    R_MESSAGE,
    R_SEARCH,
    REST,
    STREAMS,
    TEXT,
    TITLE,
    URL,
    WHOLE,
    make_anthropic,
    make_openai,
)
from tests.support.upstream import Upstream, answer
from tests.test_crossings import KEY, post, script, sent


class Cited(NamedTuple):
    """A citation as a caller sees it: the text that its indexes select, and the source."""

    text: str
    url: str
    title: str


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("crossings"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream with nothing in its script."""
    return one_gateway


def give(upstream: Upstream, model: str, stream: bool) -> None:
    upstream.script(answer(STREAMS[model] if stream else json.dumps(WHOLE[model])))


def ask_chat(gateway: Gateway, model: str, stream: bool) -> dict[str, Any]:
    """The message that the SDK returns or accumulates."""
    client = make_openai(gateway)
    asked: Any = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "web_search_options": {}}
    if not stream:
        message: dict[str, Any] = client.chat.completions.create(**asked).choices[0].message.model_dump()
        return message
    annotations, text = [], ""
    for chunk in client.chat.completions.create(stream=True, **asked):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        annotations += (delta.model_extra or {}).get("annotations", [])
    return {"content": text, "annotations": annotations}


def ask_responses(gateway: Gateway, model: str, stream: bool) -> openai.types.responses.Response:
    client = make_openai(gateway)
    asked: Any = {"model": model, "input": QUESTION, "tools": [{"type": "web_search"}]}
    asked["include"] = ["web_search_call.action.sources"]
    if not stream:
        whole: openai.types.responses.Response = client.responses.create(**asked)
        return whole
    with client.responses.stream(**asked) as events:
        kinds = [event.type for event in events]
        final = events.get_final_response()
    assert "response.output_text.annotation.added" in kinds
    assert ("response.web_search_call.completed" in kinds) == (model != "o-model")
    return final


def ask_messages(gateway: Gateway, model: str, stream: bool) -> anthropic.types.Message:
    client = make_anthropic(gateway)
    asked: Any = {"model": model, "max_tokens": 1000, "messages": [{"role": "user", "content": QUESTION}]}
    asked["tools"] = [{"type": "web_search_20250305", "name": "web_search"}]
    if not stream:
        whole: anthropic.types.Message = client.messages.create(**asked)
        return whole
    with client.messages.stream(**asked) as events:
        return events.get_final_message()


def ask_generate(gateway: Gateway, model: str, stream: bool) -> tuple[str, genai_types.Candidate]:
    """The whole text and the candidate with the metadata."""
    options = genai_types.HttpOptions(base_url=gateway.url, client_args={"trust_env": False})
    client = genai.Client(api_key=KEY, http_options=options)
    tools: Any = [genai_types.Tool(google_search=genai_types.GoogleSearch())]
    config = genai_types.GenerateContentConfig(tools=tools)
    if not stream:
        response = client.models.generate_content(model=model, contents=QUESTION, config=config)
        assert response.candidates
        return response.text or "", response.candidates[0]
    chunks = list(client.models.generate_content_stream(model=model, contents=QUESTION, config=config))
    assert chunks[-1].candidates
    return "".join(chunk.text or "" for chunk in chunks), chunks[-1].candidates[0]


def from_chat(gateway: Gateway, model: str, stream: bool) -> tuple[str, list[Cited]]:
    message = ask_chat(gateway, model, stream)
    found = [one["url_citation"] for one in message["annotations"]]
    text = message["content"]
    return text, [Cited(text[one["start_index"] : one["end_index"]], one["url"], one["title"]) for one in found]


def from_responses(gateway: Gateway, model: str, stream: bool) -> tuple[str, list[Cited]]:
    response = ask_responses(gateway, model, stream)
    cited = []
    for item in response.output:
        for part in item.content if item.type == "message" else ():
            assert part.type == "output_text"
            for one in part.annotations:
                assert one.type == "url_citation"
                cited.append(Cited(part.text[one.start_index : one.end_index], one.url, one.title))
    return response.output_text, cited


def from_messages(gateway: Gateway, model: str, stream: bool) -> tuple[str, list[Cited]]:
    """A citation of this format applies to its whole block, which the text of other vendors fills."""
    blocks = [block for block in ask_messages(gateway, model, stream).content if block.type == "text"]
    cited = []
    for block in blocks:
        for one in block.citations or ():
            assert one.type == "web_search_result_location"
            cited.append(Cited(block.text.removeprefix(FIRST).removesuffix(REST), one.url, one.title or ""))
    return "".join(block.text for block in blocks), cited


def from_generate(gateway: Gateway, model: str, stream: bool) -> tuple[str, list[Cited]]:
    text, candidate = ask_generate(gateway, model, stream)
    metadata = candidate.grounding_metadata
    assert metadata is not None
    cited = []
    for support in metadata.grounding_supports or ():
        assert support.segment is not None
        words = text.encode()[support.segment.start_index or 0 : support.segment.end_index].decode()
        assert words == support.segment.text
        for number in support.grounding_chunk_indices or ():
            web = (metadata.grounding_chunks or [])[number].web
            assert web is not None
            cited.append(Cited(words, web.uri or "", web.title or ""))
    return text, cited


CALLERS = {"o-model": from_chat, "r-model": from_responses, "a-model": from_messages, "g-model": from_generate}
"""By the model whose upstream speaks the caller's format."""
PAIRS = [(caller, model) for caller in CALLERS for model in WHOLE if caller != model]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("caller", "model"), PAIRS)
def test_citations_select_the_same_text_in_every_format(
    gateway: Gateway, upstream: Upstream, caller: str, model: str, stream: bool
) -> None:
    give(upstream, model, stream)
    text, cited = CALLERS[caller](gateway, model, stream)
    assert text == TEXT
    assert cited == [Cited(CITED, URL, TITLE)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["r-model", "g-model"])
def test_searches_are_blocks_and_usage_of_messages(
    gateway: Gateway, upstream: Upstream, model: str, stream: bool
) -> None:
    give(upstream, model, stream)
    message = ask_messages(gateway, model, stream)
    call, result = (block for block in message.content if block.type != "text")
    assert call.type == "server_tool_use"
    assert (call.name, call.input) == ("web_search", {"query": QUERY})
    assert result.type == "web_search_tool_result"
    assert result.tool_use_id == call.id
    assert [found.url for found in result.content] == [URL]  # type: ignore[union-attr]
    assert message.usage.server_tool_use is not None
    assert message.usage.server_tool_use.web_search_requests == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["a-model", "g-model"])
def test_searches_are_items_of_responses(gateway: Gateway, upstream: Upstream, model: str, stream: bool) -> None:
    give(upstream, model, stream)
    (item,) = [item for item in ask_responses(gateway, model, stream).output if item.type == "web_search_call"]
    assert item.status == "completed"
    assert item.action.type == "search"
    assert (item.action.query, item.action.queries) == (QUERY, [QUERY])
    assert [source.url for source in item.action.sources or ()] == [URL]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["a-model", "r-model"])
def test_searches_are_queries_of_a_candidate(gateway: Gateway, upstream: Upstream, model: str, stream: bool) -> None:
    give(upstream, model, stream)
    _, candidate = ask_generate(gateway, model, stream)
    assert candidate.grounding_metadata is not None
    assert candidate.grounding_metadata.web_search_queries == [QUERY]
    assert candidate.content is not None
    assert all(part.text is not None for part in candidate.content.parts or ())


@pytest.mark.parametrize("model", ["r-model", "g-model"])
def test_a_conversation_with_foreign_searches_goes_on_at_claude(
    gateway: Gateway, upstream: Upstream, model: str
) -> None:
    """Claude would reject blocks and citations that it did not make; its own come back as they were."""
    give(upstream, model, stream=False)
    message = ask_messages(gateway, model, stream=False)
    own = [A_CALL, A_RESULT, A_ANSWER["content"][3]]  # type: ignore[index]
    turns = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [block.model_dump(mode="json") for block in message.content]},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": own},
        {"role": "user", "content": "Sure?"},
    ]
    script(upstream, A_ANSWER)
    body = {"model": "a-model", "max_tokens": 100, "messages": turns}
    response = post(gateway, "/v1/messages", body, anthropic_version="2023-06-01")
    assert response.status_code == 200, response.text
    first, second = (turn["content"] for turn in sent(upstream)["messages"] if turn["role"] == "assistant")
    assert [(block["type"], block["text"], block["citations"]) for block in first] == [("text", TEXT, None)]
    assert second == own
    lost = response.headers["x-gate-loss"].split(", ") if ", " in response.headers["x-gate-loss"] else []
    lost = lost or response.headers["x-gate-loss"].split(",")
    assert len(lost) == 3
    assert any(path.endswith(".citations") for path in lost)


ISSUED_ELSEWHERE = ("responses", "r-model")
"""The search has an id of the vendor's, which another account may not send."""

HISTORIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": TEXT, "annotations": [O_ANNOTATION], "refusal": None},
            {"role": "user", "content": "Sure?"},
        ]},
        "messages.1.annotations",
    ),
    "responses": (
        "/v1/responses",
        {"input": [{"role": "user", "content": QUESTION}, R_SEARCH, R_MESSAGE, {"role": "user", "content": "Sure?"}]},
        "input.1",
    ),
    "messages": (
        "/v1/messages",
        {"max_tokens": 100, "messages": [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": A_ANSWER["content"]},
            {"role": "user", "content": "Sure?"},
        ]},
        "messages.1.content.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("caller", "model"),
    [(caller, model) for caller in HISTORIES for model in WHOLE if (caller, model) != ISSUED_ELSEWHERE],
)
def test_citations_and_searches_in_the_history_are_accepted(
    gateway: Gateway, upstream: Upstream, caller: str, model: str
) -> None:
    """An upstream of another format gets the text alone, and the loss is listed; one of the caller's format gets everything."""
    path, body, lost = HISTORIES[caller]
    script(upstream, WHOLE[model])
    response = post(gateway, path, {"model": model, **body}, anthropic_version="2023-06-01")
    assert response.status_code == 200, response.text
    received = json.dumps(sent(upstream), ensure_ascii=False)
    assert CITED in received
    if (caller, model) in (("chat", "o-model"), ("messages", "a-model")):
        assert "x-gate-loss" not in response.headers
        assert URL in received
    else:
        assert lost in response.headers["x-gate-loss"]
        assert URL not in received


def test_searches_that_the_gateway_made_do_not_reach_the_responses_api(gateway: Gateway, upstream: Upstream) -> None:
    give(upstream, "a-model", stream=False)
    first = ask_responses(gateway, "a-model", stream=False)
    output = [item.model_dump(mode="json") for item in first.output]
    assert [item["type"] for item in output] == ["web_search_call", "message"]
    script(upstream, R_ANSWER)
    items = [{"role": "user", "content": QUESTION}, *output, {"role": "user", "content": "Sure?"}]
    response = post(gateway, "/v1/responses", {"model": "r-model", "input": items})
    assert response.status_code == 200, response.text
    assert response.headers["x-gate-loss"] == "input.1"
    said = {name: value for name, value in items[2].items() if name != "id"}
    assert sent(upstream)["input"] == [items[0], said, items[3]]


def test_empty_annotations_of_a_serialized_message_are_no_loss(gateway: Gateway, upstream: Upstream) -> None:
    said: dict[str, Any] = {"role": "assistant", "content": "Hi", "annotations": [], "refusal": None, "audio": None}
    script(upstream, A_ANSWER)
    turns = [{"role": "user", "content": QUESTION}, said, {"role": "user", "content": "Sure?"}]
    response = post(gateway, "/v1/chat/completions", {"model": "a-model", "messages": turns})
    assert response.status_code == 200, response.text
    assert "x-gate-loss" not in response.headers
