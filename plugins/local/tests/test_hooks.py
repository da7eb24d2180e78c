"""The plugin as the core sees it: conf, operations, events, losses."""

from __future__ import annotations

import asyncio
import time

import orjson
import pluggy
import pytest

import tornado_gate_local as local
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError, InvalidField, PluginError, UnsupportedOperation
from tornado_gate.hookspecs import PROVIDER_PROJECT, ProviderSpec
from tornado_gate.types import (
    Audio,
    ChatRequest,
    ChatResult,
    Choice,
    CountTokensRequest,
    Data,
    File,
    FileReference,
    Finish,
    Image,
    Message,
    ModelsRequest,
    PartDelta,
    PartEnd,
    PartStart,
    Reasoning,
    ResponseFormat,
    ResponseStart,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    UpstreamResponse,
    UsageReport,
    VendorPart,
    VendorTool,
    VerbatimRequest,
)
from tornado_gate_local.pieces import AnswerPlan, stream_lines


def test_the_plugin_meets_the_specification_of_providers():
    manager = pluggy.PluginManager(PROVIDER_PROJECT)
    manager.add_hookspecs(ProviderSpec)
    manager.register(local)
    manager.check_pending()
    implemented = {caller.name for caller in manager.get_hookcallers(local) or []}
    for_models = {"configure", "translate_request", "call_upstream", "open_socket", "translate_response"}
    assert implemented == {*for_models, "list_vendors", "list_models"}


def test_an_entry_without_settings_serves_everything_without_pauses():
    capabilities = local.configure(ProviderEntry(name="local"))
    assert capabilities.operations == {
        "chat", "count_tokens", "embeddings", "moderation", "images", "image_edits", "speech", "videos", "realtime"
    }  # fmt: skip
    assert capabilities.inputs_at_once == 2_048
    assert capabilities.speaks == frozenset()
    assert capabilities.settings == local.LocalSettings(pace_seconds=0)


def test_pace_seconds_is_taken_from_conf():
    capabilities = local.configure(ProviderEntry(name="local", settings={"pace_seconds": 0.25}))
    assert capabilities.settings.pace_seconds == 0.25


@pytest.mark.parametrize(
    "settings", [{"pace_second": 1}, {"pace_seconds": 6}, {"pace_seconds": -1}, {"pace_seconds": True}]
)
def test_a_wrong_setting_is_a_fault_in_conf(settings):
    with pytest.raises(ConfigError) as caught:
        local.configure(ProviderEntry(name="local", settings=settings))
    assert caught.value.faults[0][0][0] in settings


@pytest.mark.parametrize(
    "request_",
    [
        ModelsRequest(),
        VerbatimRequest(wire_format="openai_chat", operation="chat", path="/v1/chat/completions", raw=b"{}", body={}),
    ],
)
def test_a_list_of_models_and_a_foreign_body_are_refused(call, request_):
    with pytest.raises(UnsupportedOperation) as caught:
        asyncio.run(local.translate_request(call, request_))
    assert caught.value.param == "model"


@pytest.mark.gen_test
async def test_a_stream_comes_in_the_order_of_the_vocabulary_and_in_pieces(stream_events, chat):
    events = await stream_events(chat("Tell me something long, please.", stream=True))
    assert isinstance(events[0], ResponseStart)
    assert isinstance(events[1], PartStart)
    deltas = [event.data for event in events if isinstance(event, PartDelta)]
    assert len(deltas) > 5
    assert "Tell me something long" in "".join(deltas)
    assert [type(event) for event in events[-3:]] == [PartEnd, UsageReport, Finish]


@pytest.mark.gen_test
async def test_a_whole_answer_is_the_same_as_its_stream(ask, chat):
    streamed, whole = await ask(chat(stream=True)), await ask(chat())
    assert streamed.choices == whole.choices
    assert streamed.usage == whole.usage


@pytest.mark.gen_test
async def test_an_answer_says_who_made_it_and_when(ask, chat):
    result = await ask(chat())
    assert result.model == "upstream-name"
    assert result.id is not None
    assert result.id.startswith("local-")
    assert result.created is not None
    assert abs(result.created - time.time()) < 60


@pytest.mark.gen_test
async def test_two_answers_have_two_ids(ask, chat):
    first, second = await ask(chat()), await ask(chat())
    assert first.id != second.id


@pytest.mark.gen_test
async def test_choices_take_turns_in_a_stream(stream_events, chat):
    events = await stream_events(chat(stream=True, n=3))
    parts = [event.index for event in events if isinstance(event, PartDelta)]
    assert parts[:6] == [0, 1, 2, 0, 1, 2]
    assert [event.choice for event in events if isinstance(event, Finish)] == [0, 1, 2]


@pytest.mark.gen_test
async def test_a_stream_pauses_between_pieces_and_a_whole_answer_does_not(monkeypatch, make_call, chat):
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    call = make_call(pace_seconds=0.5)
    for stream in (True, False):
        request = chat(stream=stream, n=2)
        incoming = await local.call_upstream(call, await local.translate_request(call, request))
        chunks = [chunk async for chunk in incoming.chunks]
        assert pauses == [0.5 if stream else 0] * (len(chunks) - 1)
        pauses.clear()


@pytest.mark.gen_test
async def test_other_work_goes_on_between_two_pieces():
    plan = AnswerPlan(ChatResult(model="m", choices=(Choice(parts=(Text(text="one two"),), reason="stop"),)), True, 0.0)
    heard: list[str] = []

    async def listen() -> None:
        async for line in stream_lines(plan):
            heard.append(orjson.loads(line)[2])

    listening = asyncio.ensure_future(listen())
    await asyncio.sleep(0)
    assert heard == ["one"]
    await listening
    assert heard == ["one", " two"]


@pytest.mark.gen_test
async def test_a_response_without_its_context_is_a_fault_of_a_plugin(call, chat):
    incoming = UpstreamResponse(chunks=stream_lines(AnswerPlan(ChatResult(model="m", choices=()), False, 0.0)))
    with pytest.raises(PluginError):
        [event async for event in local.translate_response(call, chat(), incoming)]


UNKNOWN_TOOL = VendorTool(wire_format="openai_chat", value={"type": "web_search"})
VENDOR_PART = VendorPart(wire_format="openai_chat", value={"type": "input_hologram"})


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"logprobs": True, "top_logprobs": 2}, ["logprobs", "top_logprobs"]),
        ({"logprobs": False, "top_logprobs": 0, "logit_bias": {}}, []),
        ({"logit_bias": {"50256": -100}}, ["logit_bias"]),
        ({"modalities": ("text", "audio"), "audio": {"voice": "alloy"}}, ["modalities", "audio"]),
        ({"modalities": ("text",)}, []),
        ({"tools": (UNKNOWN_TOOL, Tool(name="f"), UNKNOWN_TOOL)}, ["tools.0", "tools.2"]),
        ({"tool_choice": ToolChoice(mode="vendor", vendor={"type": "web_search"})}, ["tool_choice"]),
        ({"extra": {"web_search_options": {}, "absent": None}}, ["web_search_options"]),
        ({"extra": {"store": True, "service_tier": "auto", "verbosity": "low", "prediction": {}}}, []),
        ({"temperature": 0.2, "top_p": 0.5, "top_k": 4, "seed": 1, "user": "u", "metadata": {"a": "b"}}, []),
        ({"presence_penalty": 1.0, "frequency_penalty": 1.0, "reasoning": Reasoning(effort="low")}, []),
    ],
)
def test_what_cannot_be_honoured_is_reported(call, chat, fields, lost):
    asyncio.run(local.translate_request(call, chat(**fields)))
    assert call.losses == lost


def test_a_loss_is_spelled_as_the_caller_spelled_it(call, chat):
    asyncio.run(local.translate_request(call, chat(logprobs=True, names={"logprobs": "responseLogprobs"})))
    assert call.losses == ["responseLogprobs"]


def test_a_strict_caller_gets_an_error_for_a_loss(make_call, chat):
    with pytest.raises(InvalidField) as caught:
        asyncio.run(local.translate_request(make_call(strict=True), chat(logit_bias={"1": 1.0})))
    assert caught.value.param == "logit_bias"


STORED = FileReference(id="file-1")
PNG = Data(media_type="image/png", base64="aGk=")


def user(*parts, **rest) -> Message:
    return Message(role="user", parts=parts, **rest)


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        (user(VENDOR_PART), ["messages.0.content.0"]),
        (user(Text(text="Look:"), Image(source=STORED)), ["messages.0.content.1"]),
        (user(File(source=STORED, name="a.pdf", extra={"citations": {}})), ["messages.0.content.0"]),
        (Message(role="assistant", parts=(Audio(reference="audio_1"),)), ["messages.0.content.0"]),
        (user(File(source=PNG, extra={"citations": {"enabled": True}})), ["messages.0.content.0.citations"]),
        (user(Image(source=PNG, extra={"videoMetadata": {"fps": 1}})), ["messages.0.content.0.videoMetadata"]),
        (user(Text(text="Hi"), extra={"mood": "sunny"}), ["messages.0.mood"]),
        (
            Message(
                role="assistant",
                parts=(ToolCall(id="c", name="f", arguments="{}", extra={"functionCall": {"willContinue": True}}),),
            ),
            ["messages.0.content.0.functionCall"],
        ),
    ],
)
def test_what_cannot_be_read_of_a_message_is_reported_by_its_place(call, chat, message, lost):
    asyncio.run(local.translate_request(call, chat(messages=(message,))))
    assert call.losses == lost


def test_what_is_inside_the_result_of_a_tool_is_reported_too(call, chat):
    inside = (Text(text="sunny"), VENDOR_PART, Text(text="x", extra={"citations": [1]}), Image(source=STORED))
    result = ToolResult(call_id="c", parts=inside, extra={"scheduling": "SILENT"})
    asyncio.run(local.translate_request(call, chat(messages=(Message(role="tool", parts=(result,)),))))
    place = "messages.0.content.0"
    assert call.losses == [
        f"{place}.scheduling",
        f"{place}.content.1",
        f"{place}.content.2.citations",
        f"{place}.content.3",
    ]


def test_what_cannot_be_read_is_reported_from_past_messages_too(call, chat):
    messages = (
        Message(role="system", parts=(VENDOR_PART,)),
        user(Image(source=STORED), extra={"mood": "sunny"}),
        Message(role="assistant", parts=(Text(text="Hi"), VENDOR_PART), extra={"function_call": {"name": "f"}}),
        user(Text(text="And now?")),
    )
    asyncio.run(local.translate_request(call, chat(messages=messages)))
    assert call.losses == [
        "messages.0.content.0",
        "messages.1.mood",
        "messages.1.content.0",
        "messages.2.function_call",
        "messages.2.content.1",
    ]


def test_places_are_spelled_as_the_caller_spelled_them(call, chat):
    names = {
        "messages": "contents",
        "content": "parts",
        "messages.0": "systemInstruction",
        "messages.1": "contents.0",
        "tools": "functions",
        "response_format": "text.format",
    }
    messages = (Message(role="system", parts=(VENDOR_PART,)), user(Text(text="Hi", extra={"partMetadata": {"a": 1}})))
    tools = (Tool(name="f", extra={"behavior": "BLOCKING"}),)
    wanted = ResponseFormat(kind="json_object", extra={"grammar": "x"})
    asyncio.run(
        local.translate_request(call, chat(messages=messages, tools=tools, response_format=wanted, names=names))
    )
    assert call.losses == [
        "text.format.grammar",
        "functions.0.behavior",
        "systemInstruction.parts.0",
        "contents.0.parts.0.partMetadata",
    ]


@pytest.mark.parametrize(
    "member", ["allowed_callers", "defer_loading", "output_schema", "input_examples", "async", "responseJsonSchema"]
)
def test_what_only_a_vendor_acts_on_in_a_tool_is_reported(call, chat, member):
    tools = (Tool(name="f"), Tool(name="g", extra={member: True, "cache_control": {"type": "ephemeral"}}))
    asyncio.run(local.translate_request(call, chat(tools=tools)))
    assert call.losses == [f"tools.1.{member}"]


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": ResponseFormat(kind="json_object", name="n", description="d", strict=True)},
        {"tools": (Tool(name="f", strict=True, extra={"eager_input_streaming": True}),)},
        {"messages": (user(Image(source=PNG, detail="low", extra={"prompt_cache_breakpoint": {}}), name="Ann"),)},
        {"messages": (user(File(source=PNG, extra={"detail": "low", "cache_control": {"type": "ephemeral"}})),)},
    ],
)
def test_hints_that_no_answer_depends_on_are_no_losses(call, chat, fields):
    asyncio.run(local.translate_request(call, chat(**fields)))
    assert call.losses == []


def test_a_strict_caller_may_send_back_an_answer_as_an_sdk_dumps_it(make_call, chat):
    dumped = {"annotations": [], "audio": None, "phase": "final_answer", "reasoning_content": "Easy."}
    answered = Message(role="assistant", parts=(Text(text="4", extra={"citations": None}),), extra=dumped)
    legacy = Message(role="tool", parts=(ToolResult(call_id="", parts=(Text(text="4"),)),), extra={"role": "function"})
    call = make_call(strict=True)
    asyncio.run(local.translate_request(call, chat(messages=(answered, legacy, user(Text(text="Thanks"))))))
    assert call.losses == []


def test_a_strict_caller_gets_an_error_for_a_part_that_cannot_be_read(make_call, chat):
    with pytest.raises(InvalidField) as caught:
        asyncio.run(local.translate_request(make_call(strict=True), chat(messages=(user(VENDOR_PART),))))
    assert caught.value.param == "messages.0.content.0"


@pytest.mark.parametrize("filler", ["word ", "1+", "say ", " ", "“", "repeat: a "])
@pytest.mark.gen_test
async def test_the_loop_goes_on_while_a_prompt_of_five_megabytes_is_read(call, filler):
    text = filler * (5_000_000 // len(filler.encode()))
    request = ChatRequest(model="m", messages=(Message(role="user", parts=(Text(text=text),)),))
    answering = asyncio.ensure_future(local.translate_request(call, request))
    await asyncio.sleep(0)
    assert not answering.done()
    assert (await answering).context.result.usage.input_tokens > 0


@pytest.mark.gen_test
async def test_tokens_of_a_prompt_are_counted_as_chat_counts_them(call, chat, ask):
    counting = CountTokensRequest(model="m", chat=chat("How many?"))
    incoming = await local.call_upstream(call, await local.translate_request(call, counting))
    (counted,) = [event async for event in local.translate_response(call, counting, incoming)]
    assert counted.input_tokens == (await ask(chat("How many?"))).usage.input_tokens
