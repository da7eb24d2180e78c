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
from tests.support.upstream import Upstream, answer, sse
from tests.test_crossings import A_USAGE, KEY, post, script, sent

CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream, openai_models: true, responses: false}}
  r: {{plugin: openai, base_url: "{url}/r/v1", api_key: key-of-the-upstream, openai_models: true, api: responses}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
models:
  o-model: {{provider: o, model: gpt-4o-search-preview}}
  r-model: {{provider: r, model: gpt-5.4}}
  a-model: {{provider: a, model: claude-sonnet-4-5}}
  g-model: {{provider: g, model: gemini-3-pro-preview}}
circuits: {{failures: 1000, open_seconds: 0.001}}
keys:
  - {{name: test, key: {key}}}
"""

QUESTION = "How tall is it?"
CITED = "Le soleil d'été 🗼 brille."
FIRST, REST = "Voilà 🎉 ! ", " Oui."
TEXT = FIRST + CITED + REST
START, END = len(FIRST), len(FIRST + CITED)
URL, TITLE, QUERY = "https://example.com/tower", "The tower", "tower height"


class Cited(NamedTuple):
    """A citation as a caller sees it: the text that its indexes select, and the source."""

    text: str
    url: str
    title: str


A_CITATION = {
    "type": "web_search_result_location", "url": URL, "title": TITLE, "encrypted_index": "Eo8BCi", "cited_text": "330 m",
}  # fmt: skip
A_CALL = {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": QUERY}}
A_FOUND = {
    "type": "web_search_result", "url": URL, "title": TITLE, "encrypted_content": "EqgfCi", "page_age": "May 1, 2026",
}  # fmt: skip
A_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": [A_FOUND]}
A_ANSWER = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
    "content": [
        A_CALL, A_RESULT, {"type": "text", "text": FIRST}, {"type": "text", "text": CITED, "citations": [A_CITATION]},
        {"type": "text", "text": REST},
    ],
    "stop_reason": "end_turn", "stop_sequence": None, "usage": {**A_USAGE, "server_tool_use": {"web_search_requests": 1}},
}  # fmt: skip
R_SEARCH = {
    "id": "ws_1", "type": "web_search_call", "status": "completed",
    "action": {"type": "search", "query": QUERY, "queries": [QUERY], "sources": [{"type": "url", "url": URL}]},
}  # fmt: skip
R_ANNOTATION = {"type": "url_citation", "start_index": START, "end_index": END, "url": URL, "title": TITLE}
R_TEXT = {"type": "output_text", "text": TEXT, "annotations": [R_ANNOTATION], "logprobs": []}
R_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [R_TEXT]}
R_ANSWER = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-5.4",
    "output": [R_SEARCH, R_MESSAGE], "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
}  # fmt: skip
O_ANNOTATION = {
    "type": "url_citation", "url_citation": {"start_index": START, "end_index": END, "url": URL, "title": TITLE}
}  # fmt: skip
O_ANSWER = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-search-preview",
    "choices": [{
        "index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": TEXT, "refusal": None, "annotations": [O_ANNOTATION]},
    }],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
}  # fmt: skip
SEGMENT = {"startIndex": len(FIRST.encode()), "endIndex": len((FIRST + CITED).encode()), "text": CITED}
G_GROUNDING = {
    "webSearchQueries": [QUERY],
    "searchEntryPoint": {"renderedContent": "<div>tower height</div>"},
    "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}],
    "groundingSupports": [
        {
            "segment": SEGMENT,
            "groundingChunkIndices": [0],
            "confidenceScores": [0.9],
        }
    ],
}
G_USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
G_ANSWER = {
    "candidates": [{
        "index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": TEXT}]},
        "groundingMetadata": G_GROUNDING,
    }],
    "usageMetadata": G_USAGE, "modelVersion": "gemini-3-pro-preview", "responseId": "r1",
}  # fmt: skip
WHOLE: dict[str, dict[str, Any]] = {"o-model": O_ANSWER, "r-model": R_ANSWER, "a-model": A_ANSWER, "g-model": G_ANSWER}


def cut(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def stream_of_a() -> str:
    """The events of the vendor's web search page: inputs and citations come in deltas."""

    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        events = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        begin = {"type": "content_block_start", "index": index, "content_block": start}
        return [begin, *events, {"type": "content_block_stop", "index": index}]

    given = json.dumps(A_CALL["input"])
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", given[:6], given[6:])]
    said = [{"type": "text_delta", "text": piece} for piece in cut(CITED)]
    empty = {"type": "text", "text": ""}
    return sse(
        {"type": "message_start", "message": {**A_ANSWER, "content": [], "stop_reason": None, "usage": A_USAGE}},
        *block(0, {**A_CALL, "input": {}}, *pieces),
        *block(1, A_RESULT),
        *block(2, empty, {"type": "text_delta", "text": FIRST}),
        *block(3, {**empty, "citations": []}, {"type": "citations_delta", "citation": A_CITATION}, *said),
        *block(4, empty, {"type": "text_delta", "text": REST}),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": A_ANSWER["usage"]},
        {"type": "message_stop"},
    )


def stream_of_o() -> str:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "model": "gpt-4o-search-preview",
            "choices": [choice],
        }

    said = [chunk({"content": piece}) for piece in cut(TEXT)]
    return sse(chunk({"role": "assistant"}), *said, chunk({"annotations": [O_ANNOTATION]}), chunk({}, "stop"), "[DONE]")


def stream_of_r() -> str:
    where = {"output_index": 1, "content_index": 0, "item_id": "msg_1"}
    deltas = [{"type": "response.output_text.delta", **where, "delta": piece} for piece in cut(TEXT)]
    added = {
        "type": "response.output_text.annotation.added",
        **where,
        "annotation_index": 0,
        "annotation": R_ANNOTATION,
    }
    started = {**R_ANSWER, "status": "in_progress", "output": []}
    return sse(
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": {**R_SEARCH, "status": "in_progress"}},
        {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
        {"type": "response.output_item.done", "output_index": 0, "item": R_SEARCH},
        {"type": "response.output_item.added", "output_index": 1, "item": {**R_MESSAGE, "content": []}},
        *deltas,
        added,
        {"type": "response.content_part.done", **where, "part": R_TEXT},
        {"type": "response.output_item.done", "output_index": 1, "item": R_MESSAGE},
        {"type": "response.completed", "response": R_ANSWER},
    )


def stream_of_g() -> str:
    """The signature comes with an empty text, and the metadata with the finish reason."""

    def chunk(part: dict[str, Any], **more: Any) -> dict[str, Any]:
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, **more}
        return {"candidates": [candidate], "modelVersion": "gemini-3-pro-preview", "responseId": "r1"}

    last = chunk({"text": "", "thoughtSignature": "c2lnbmF0dXJl"}, finishReason="STOP", groundingMetadata=G_GROUNDING)
    return sse(*(chunk({"text": piece}) for piece in cut(TEXT)), last | {"usageMetadata": G_USAGE})


STREAMS = {"a-model": stream_of_a(), "g-model": stream_of_g(), "o-model": stream_of_o(), "r-model": stream_of_r()}


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


def make_openai(gateway: Gateway) -> openai.OpenAI:
    plain = openai.DefaultHttpxClient(trust_env=False, timeout=30)
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, http_client=plain, max_retries=0)


def make_anthropic(gateway: Gateway) -> anthropic.Anthropic:
    plain = anthropic.DefaultHttpxClient(trust_env=False, timeout=30)
    return anthropic.Anthropic(base_url=gateway.url, api_key=KEY, http_client=plain, max_retries=0)


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
    assert sent(upstream)["input"] == [items[0], *items[2:]]


def test_empty_annotations_of_a_serialized_message_are_no_loss(gateway: Gateway, upstream: Upstream) -> None:
    said: dict[str, Any] = {"role": "assistant", "content": "Hi", "annotations": [], "refusal": None, "audio": None}
    script(upstream, A_ANSWER)
    turns = [{"role": "user", "content": QUESTION}, said, {"role": "user", "content": "Sure?"}]
    response = post(gateway, "/v1/chat/completions", {"model": "a-model", "messages": turns})
    assert response.status_code == 200, response.text
    assert "x-gate-loss" not in response.headers
