"""Tools that vendors run themselves, asked in one format and run by another vendor. Real gateway, scripted upstreams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.searches import CONF, G_USAGE, QUESTION, STREAMS, WHOLE, make_anthropic, make_openai
from tests.support.upstream import Upstream, answer, sse
from tests.test_crossings import A_USAGE, KEY, post, script, sent

DOMAINS = ["example.com", "example.org"]
PLACE = {"city": "Lyon", "country": "FR", "timezone": "Europe/Paris"}
APPROXIMATE = {"type": "approximate", **PLACE}
A_SEARCH = {"type": "web_search_20250305", "name": "web_search"}
A_CODE = {"type": "code_execution_20250825", "name": "code_execution"}
A_FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}
R_SEARCH = {"type": "web_search", "user_location": {"type": "approximate"}}
R_CODE = {"type": "code_interpreter", "container": {"type": "auto"}}


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    conf = conf.replace("\ncircuits:", "\n  old-model: {provider: a, model: claude-3-opus-20240229}\ncircuits:")
    conf += f"  - {{name: other, key: another-{KEY}}}\n"
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("crossings"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream with nothing in its script."""
    return one_gateway


def send_request(
    gateway: Gateway, upstream: Upstream, caller: str, model: str, **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    """(the upstream's body, the losses) of a request with these fields."""
    script(upstream, WHOLE["a-model" if model == "old-model" else model])
    path, body = {
        "chat": ("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": QUESTION}]}),
        "responses": ("/v1/responses", {"model": model, "input": QUESTION}),
        "messages": (
            "/v1/messages",
            {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]},
        ),
        "generate": (f"/v1beta/models/{model}:generateContent", {"contents": [{"parts": [{"text": QUESTION}]}]}),
    }[caller]
    response = post(gateway, path, {**body, **fields}, anthropic_version="2023-06-01")
    assert response.status_code == 200, response.text
    lost = response.headers.get("x-gate-loss", "")
    return sent(upstream), [name.strip() for name in lost.split(",") if name]


CHAT = {
    "web_search_options": {"search_context_size": "low", "user_location": {"type": "approximate", "approximate": PLACE}}
}
RESPONSES = {
    "tools": [
        {
            "type": "web_search_2025_08_26",
            "filters": {"allowed_domains": DOMAINS},
            "user_location": APPROXIMATE,
            "search_context_size": "high",
        }
    ]
}
MESSAGES = {"tools": [{**A_SEARCH, "max_uses": 3, "blocked_domains": DOMAINS, "user_location": APPROXIMATE}]}
GENERATE = {"tools": [{"google_search": {"exclude_domains": DOMAINS}}]}
SEARCHES: list[Any] = [
    ("chat", CHAT, "a-model", {**A_SEARCH, "user_location": APPROXIMATE}, ["web_search_options.search_context_size"]),
    ("chat", CHAT, "r-model", {**R_SEARCH, "user_location": APPROXIMATE, "search_context_size": "low"}, []),
    (
        "chat", CHAT, "g-model", {"googleSearch": {}},
        ["web_search_options.user_location", "web_search_options.search_context_size"],
    ),
    (
        "responses", RESPONSES, "a-model", {**A_SEARCH, "allowed_domains": DOMAINS, "user_location": APPROXIMATE},
        ["tools.0.search_context_size"],
    ),
    (
        "responses", RESPONSES, "o-model",
        {"search_context_size": "high", "user_location": {"type": "approximate", "approximate": PLACE}},
        ["tools.0.filters.allowed_domains"],
    ),
    ("responses", {"tools": [{"type": "web_search_preview"}]}, "g-model", {"googleSearch": {}}, []),
    (
        "responses", {"tools": [{"type": "web_search", "user_location": {**APPROXIMATE, "street": "x"}}]}, "a-model",
        {**A_SEARCH, "user_location": APPROXIMATE}, ["tools.0.user_location.street"],
    ),
    (
        "messages", {"tools": [{**A_SEARCH, "user_location": {**APPROXIMATE, "street": "x"}}]}, "r-model",
        {**R_SEARCH, "user_location": APPROXIMATE}, ["tools.0.user_location.street"],
    ),
    (
        "chat", {"web_search_options": {"user_location": {"approximate": {**PLACE, "street": "x"}}}}, "a-model",
        {**A_SEARCH, "user_location": APPROXIMATE}, ["web_search_options.user_location.approximate.street"],
    ),
    (
        "messages", MESSAGES, "r-model", {**R_SEARCH, "user_location": APPROXIMATE}, ["tools.0.blocked_domains"],
    ),
    (
        "messages", MESSAGES, "o-model", {"user_location": {"type": "approximate", "approximate": PLACE}},
        ["tools.0.max_uses", "tools.0.blocked_domains"],
    ),
    (
        "messages", {"tools": [{"type": "web_search_20260318", "name": "web_search", "allowed_callers": ["direct"]}]}, "g-model",
        {"googleSearch": {}}, ["tools.0.allowed_callers"],
    ),
    ("generate", GENERATE, "a-model", {**A_SEARCH, "blocked_domains": DOMAINS}, []),
    ("generate", {"tools": [{"googleSearchRetrieval": {}}]}, "r-model", R_SEARCH, []),
    ("generate", GENERATE, "o-model", {}, ["tools.0.googleSearch.excludeDomains"]),
    ("messages", {"tools": [A_CODE]}, "r-model", R_CODE, []),
    ("messages", {"tools": [A_CODE]}, "g-model", {"codeExecution": {}}, []),
    ("messages", {"tools": [A_FETCH]}, "g-model", {"urlContext": {}}, []),
    ("responses", {"tools": [R_CODE]}, "a-model", A_CODE, []),
    ("responses", {"tools": [R_CODE]}, "g-model", {"codeExecution": {}}, []),
    ("generate", {"tools": [{"codeExecution": {}}]}, "r-model", R_CODE, []),
    ("generate", {"tools": [{"urlContext": {}}]}, "a-model", A_FETCH, []),
]  # fmt: skip


@pytest.mark.parametrize(("caller", "fields", "model", "expected", "losses"), SEARCHES)
def test_a_server_tool_is_asked_for_in_the_upstreams_words(
    gateway: Gateway, upstream: Upstream, caller: str, fields: Any, model: str, expected: Any, losses: list[str]
) -> None:
    body, lost = send_request(gateway, upstream, caller, model, **fields)
    found = body["web_search_options"] if model == "o-model" else body["tools"]
    assert found == (expected if model == "o-model" else [expected])
    assert sorted(lost) == sorted(losses)


def test_results_of_a_search_are_included_only_if_the_caller_asks_for_them(
    gateway: Gateway, upstream: Upstream
) -> None:
    body: dict[str, Any] = {"model": "a-model", "input": QUESTION, "tools": [{"type": "web_search"}]}
    include = ["web_search_call.action.sources"]
    for fields in ({}, {"include": include}):
        script(upstream, WHOLE["a-model"])
        response = post(gateway, "/v1/responses", {**body, **fields})
        assert "x-gate-loss" not in response.headers
        assert ("sources" in response.json()["output"][0]["action"]) == bool(fields)


def test_the_bound_of_uses_is_that_of_all_calls_at_the_responses_api(gateway: Gateway, upstream: Upstream) -> None:
    body, _ = send_request(gateway, upstream, "messages", "r-model", tools=[{**A_SEARCH, "max_uses": 3}])
    assert body["max_tool_calls"] == 3
    assert "web_search_call.action.sources" in body["include"]


@pytest.mark.parametrize(
    ("caller", "fields", "model"),
    [
        ("messages", {"tools": [A_CODE]}, "o-model"),
        ("messages", {"tools": [A_FETCH]}, "r-model"),
        ("messages", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "g-model"),
        ("responses", {"tools": [{"type": "web_search"}]}, "old-model"),
        ("responses", {"tools": [{"type": "file_search", "vector_store_ids": []}]}, "a-model"),
        ("generate", {"tools": [{"googleMaps": {}}]}, "a-model"),
    ],
)
def test_a_tool_that_the_model_does_not_have_is_listed_as_lost(
    gateway: Gateway, upstream: Upstream, caller: str, fields: Any, model: str
) -> None:
    body, lost = send_request(gateway, upstream, caller, model, **fields)
    assert lost == ["tools.0"]
    assert "tools" not in body


def test_chats_web_search_is_lost_by_its_own_name(gateway: Gateway, upstream: Upstream) -> None:
    body, lost = send_request(gateway, upstream, "chat", "old-model", web_search_options={})
    assert lost == ["web_search_options"]
    assert "tools" not in body


def test_a_search_beside_functions_is_lost_at_gemini(gateway: Gateway, upstream: Upstream) -> None:
    function = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
    body, lost = send_request(gateway, upstream, "messages", "g-model", tools=[A_SEARCH, function])
    assert lost == ["tools.0"]
    assert [list(entry) for entry in body["tools"]] == [["functionDeclarations"]]


def test_a_forced_search_is_forced_at_claude(gateway: Gateway, upstream: Upstream) -> None:
    tools = [{"type": "web_search_preview"}]
    body, lost = send_request(
        gateway, upstream, "responses", "a-model", tools=tools, tool_choice={"type": "web_search_preview"}
    )
    assert body["tool_choice"] == {"type": "tool", "name": "web_search"}
    assert lost == []


def test_a_forced_search_of_messages_is_not_a_function(gateway: Gateway, upstream: Upstream) -> None:
    choice = {"type": "tool", "name": "web_search"}
    body, lost = send_request(gateway, upstream, "messages", "r-model", tools=[A_SEARCH], tool_choice=choice)
    assert "tool_choice" not in body
    assert lost == ["tool_choice"]


CODE, OUTPUT = "print(6 * 7)", "42\n"
A_RUN = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {"command": CODE}},
    {
        "type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1",
        "content": {
            "type": "bash_code_execution_result", "stdout": OUTPUT, "stderr": "", "return_code": 0, "content": []
        },
    },
]  # fmt: skip
A_RAN = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
    "content": [*A_RUN, {"type": "text", "text": "It is 42."}], "stop_reason": "end_turn", "usage": A_USAGE,
}  # fmt: skip
G_RUN = [
    {"executableCode": {"language": "PYTHON", "code": CODE}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": OUTPUT}},
]
G_RAN = {
    "candidates": [{
        "index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [*G_RUN, {"text": "It is 42."}]}
    }],
    "usageMetadata": G_USAGE, "modelVersion": "gemini-3-pro-preview",
}  # fmt: skip
R_RAN = {
    **WHOLE["r-model"],
    "output": [
        {
            "id": "ci_1", "type": "code_interpreter_call", "status": "completed", "code": CODE, "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": OUTPUT}],
        },
        {"type": "message", "content": [{"type": "output_text", "text": "It is 42.", "annotations": []}]},
    ],
}  # fmt: skip
RAN: dict[str, dict[str, Any]] = {"a-model": A_RAN, "g-model": G_RAN, "r-model": R_RAN}


def stream_code(model: str) -> str:
    if model == "g-model":
        return sse(G_RAN)
    if model == "r-model":
        items = [
            {"type": "response.output_item.done", "output_index": number, "item": item}
            for number, item in enumerate(R_RAN["output"])
        ]
        return sse(*items, {"type": "response.completed", "response": R_RAN})
    blocks = [
        event
        for index, block in enumerate(A_RAN["content"])  # type: ignore[arg-type]
        for event in (
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        )
    ]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    return sse({"type": "message_start", "message": {**A_RAN, "content": []}}, *blocks, end, {"type": "message_stop"})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["a-model", "g-model"])
def test_executed_code_is_an_item_of_responses(gateway: Gateway, upstream: Upstream, model: str, stream: bool) -> None:
    upstream.script(answer(stream_code(model) if stream else json.dumps(RAN[model])))
    client = make_openai(gateway)
    asked: Any = {"model": model, "input": QUESTION, "tools": [R_CODE], "include": ["code_interpreter_call.outputs"]}
    if stream:
        with client.responses.stream(**asked) as events:
            kinds = [event.type for event in events]
            response: Any = events.get_final_response()
        assert [kind.removeprefix("response.") for kind in kinds if "code_interpreter" in kind] == [
            "code_interpreter_call.in_progress",
            "code_interpreter_call_code.delta",
            "code_interpreter_call_code.done",
            "code_interpreter_call.interpreting",
            "code_interpreter_call.completed",
        ]
    else:
        response = client.responses.create(**asked)
    (item,) = [item for item in response.output if item.type == "code_interpreter_call"]
    assert (item.code, item.status) == (CODE, "completed")
    assert [output.logs for output in item.outputs or ()] == [OUTPUT]
    assert response.output_text == "It is 42."
    script(upstream, RAN[model])
    turns = [{"role": "user", "content": QUESTION}, *(item.model_dump(mode="json") for item in response.output)]
    again = post(gateway, "/v1/responses", {"model": model, "input": [*turns, {"role": "user", "content": "Sure?"}]})
    assert again.status_code == 200, again.text
    assert again.headers["x-gate-loss"] == "input.1"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["r-model", "g-model"])
def test_executed_code_is_blocks_of_messages(gateway: Gateway, upstream: Upstream, model: str, stream: bool) -> None:
    upstream.script(answer(stream_code(model) if stream else json.dumps(RAN[model])))
    client = make_anthropic(gateway)
    asked: Any = {
        "model": model,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [A_CODE],
    }
    if stream:
        with client.messages.stream(**asked) as events:
            message: Any = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    call, result, text = message.content
    assert (call.type, call.name, call.input) == ("server_tool_use", "code_execution", {"code": CODE})
    assert (result.type, result.tool_use_id) == ("code_execution_tool_result", call.id)
    assert (result.content.stdout, result.content.return_code) == (OUTPUT, 0)
    assert text.text == "It is 42."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["r-model", "a-model"])
def test_executed_code_is_parts_of_a_candidate(gateway: Gateway, upstream: Upstream, model: str, stream: bool) -> None:
    upstream.script(answer(stream_code(model) if stream else json.dumps(RAN[model])))
    method = "streamGenerateContent" if stream else "generateContent"
    body = {"contents": [{"parts": [{"text": QUESTION}]}], "tools": [{"codeExecution": {}}]}
    response = post(gateway, f"/v1beta/models/{model}:{method}", body)
    chunks = response.json() if stream else [response.json()]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"] if part != {"text": ""}]
    assert parts == [*G_RUN, {"text": "It is 42."}]


@pytest.mark.parametrize("model", list(RAN))
def test_executed_code_has_no_place_in_chat(gateway: Gateway, upstream: Upstream, model: str) -> None:
    script(upstream, RAN[model])
    body = {"model": model, "messages": [{"role": "user", "content": QUESTION}]}
    message = post(gateway, "/v1/chat/completions", body).json()["choices"][0]["message"]
    assert message["content"] == "It is 42."
    assert message.keys() == {"role", "content", "refusal"}


CITED = "input.2.content.1.annotations"
"""Only Claude's own format can return its citations."""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_claude_gets_its_own_search_back_from_a_caller_of_responses(
    gateway: Gateway, upstream: Upstream, stream: bool
) -> None:
    upstream.script(answer(STREAMS["a-model"] if stream else json.dumps(WHOLE["a-model"])))
    asked: Any = {"model": "a-model", "tools": [{"type": "web_search"}], "store": False}
    client = make_openai(gateway)
    if stream:
        with client.responses.stream(input=QUESTION, **asked) as events:
            first: Any = events.get_final_response()
    else:
        first = client.responses.create(input=QUESTION, **asked)
    script(upstream, WHOLE["a-model"])
    turns = [{"role": "user", "content": QUESTION}, *first.output, {"role": "user", "content": "Sure?"}]
    again = client.responses.with_raw_response.create(input=turns, **asked)
    assert again.headers["x-gate-loss"] == CITED
    own = WHOLE["a-model"]["content"][:2]
    assert sent(upstream)["messages"][1]["content"][:2] == own
    script(upstream, WHOLE["g-model"])
    other = client.responses.with_raw_response.create(input=turns, **(asked | {"model": "g-model"}))
    assert other.headers["x-gate-loss"] == f"input.1,{CITED}"
    assert "EqgfCi" not in json.dumps(sent(upstream))


def test_a_search_is_not_sent_back_without_its_tool(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, WHOLE["a-model"], WHOLE["a-model"])
    body = {"model": "a-model", "input": QUESTION, "tools": [{"type": "web_search"}]}
    output = post(gateway, "/v1/responses", body).json()["output"]
    turns = [{"role": "user", "content": QUESTION}, *output, {"role": "user", "content": "Sure?"}]
    response = post(gateway, "/v1/responses", {"model": "a-model", "input": turns})
    assert response.headers["x-gate-loss"] == f"input.1,{CITED}"
    assert "srvtoolu_01" not in json.dumps(sent(upstream))


def test_gemini_gets_its_own_code_back_from_a_caller_of_messages(gateway: Gateway, upstream: Upstream) -> None:
    signed = [{**G_RUN[0], "thoughtSignature": "c2lnbmF0dXJl"}, G_RUN[1]]
    content = {"role": "model", "parts": [*signed, {"text": "It is 42."}]}
    ran = {**G_RAN, "candidates": [{"index": 0, "finishReason": "STOP", "content": content}]}
    script(upstream, ran, ran)
    body: dict[str, Any] = {"model": "g-model", "max_tokens": 100, "tools": [A_CODE]}
    question = {"role": "user", "content": QUESTION}
    first = post(gateway, "/v1/messages", {**body, "messages": [question]}, anthropic_version="2023-06-01").json()
    turns = [question, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": "Sure?"}]
    response = post(gateway, "/v1/messages", {**body, "messages": turns}, anthropic_version="2023-06-01")
    assert "x-gate-loss" not in response.headers
    assert sent(upstream)["contents"][1]["parts"] == content["parts"]


def test_a_search_of_another_account_is_not_sent_back(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, WHOLE["a-model"], WHOLE["a-model"])
    body = {"model": "a-model", "input": QUESTION, "tools": [{"type": "web_search"}]}
    output = post(gateway, "/v1/responses", body).json()["output"]
    turns = [{"role": "user", "content": QUESTION}, *output, {"role": "user", "content": "Sure?"}]
    response = post(gateway, "/v1/responses", {**body, "input": turns}, key=f"another-{KEY}")
    assert response.status_code == 200, response.text
    assert response.headers["x-gate-loss"] == f"input.1,{CITED}"
    assert "EqgfCi" not in json.dumps(sent(upstream))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["a-model", "g-model", "r-model"])
def test_a_chat_with_a_search_shows_its_sources_and_goes_on(
    gateway: Gateway, upstream: Upstream, model: str, stream: bool
) -> None:
    """As the vendor's own search models, chat shows a search as annotations only; the next turn loses nothing but them."""
    if stream:
        upstream.script(answer(STREAMS[model]))
    else:
        script(upstream, WHOLE[model])
    question = {"role": "user", "content": QUESTION}
    body = {"model": model, "messages": [question], "web_search_options": {}, "stream": stream}
    message = read_message(post(gateway, "/v1/chat/completions", body).text, stream)
    assert [one["type"] for one in message["annotations"]] == ["url_citation"]
    script(upstream, WHOLE[model])
    history = [question, message, {"role": "user", "content": "Sure?"}]
    response = post(gateway, "/v1/chat/completions", {**body, "messages": history, "stream": False})
    assert response.status_code == 200, response.text
    assert response.headers["x-gate-loss"] == "messages.1.annotations"
    received = json.dumps(sent(upstream), ensure_ascii=False)
    assert json.dumps(message["content"], ensure_ascii=False) in received


def read_message(text: str, stream: bool) -> dict[str, Any]:
    """The message of an answer, as the vendor's SDK collects it."""
    if not stream:
        message: dict[str, Any] = json.loads(text)["choices"][0]["message"]
        return message
    collected: dict[str, Any] = {"role": "assistant", "content": "", "annotations": []}
    for line in text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                collected["content"] += choice["delta"].get("content") or ""
                collected["annotations"] += choice["delta"].get("annotations") or []
    return collected
