"""What callers of ``/v1/chat/completions`` send: one feature each, and where it must arrive.

Source: openai-python 3.52, types/chat/completion_create_params.py; conversations as real clients send them (qa/sdk).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from qa.imitations.calling.places import (
    BMP,
    GIF,
    HEIC,
    JPEG,
    PDF,
    TIFF,
    closed_format,
    has_forced,
    has_text,
    is_off,
    names_one_tool,
    thinks,
)
from qa.imitations.calling.scenario import Feature, Need, Turn
from qa.imitations.calling.turns import PNG

_USER: Final = {"role": "user", "content": "mark-question plan-text"}
_ASKS: Final = {"messages": [_USER]}
_OBJECT: Final = {"type": "object", "properties": {"at": {"type": "string"}}}


def _asks(plan: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"mark-question {plan}"}], **rest}


def _says(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


def _tool(name: str = "look", **rest: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "mark-tool", "parameters": _OBJECT, **rest}}


def _call(identity: str, arguments: str = '{"at": "mark-arguments"}') -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": "look", "arguments": arguments}}


def _result(identity: str, content: Any = "mark-result plan-text") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def _history(*messages: Mapping[str, Any], **rest: Any) -> dict[str, Any]:
    return {"messages": [_USER, *messages], "tools": [_tool()], **rest}


def _effort(name: str, **rest: Any) -> Feature:
    body = _asks("plan-says-and-calls", reasoning_effort=name, tools=[_tool()], **rest)
    place = is_off if name == "none" else thinks
    needs = (Need("reasoning_effort", place, place),)
    return Feature(name=f"effort-{name}" + "-".join(["", *rest]), body=body, needs=needs, shows=name != "none")


_LOOK: Final = [_tool()]
_TWO: Final = [_tool(), _tool("list_all")]
_TEXTS: Final = (
    Feature(name="text", body=_ASKS),
    Feature(name="system", body={"messages": [{"role": "system", "content": "mark-system"}, _USER]}),
    Feature(
        name="two-systems",
        body={
            "messages": [{"role": "system", "content": "mark-one"}, {"role": "developer", "content": "mark-two"}, _USER]
        },
    ),
    Feature(name="system-only", body={"messages": [{"role": "system", "content": "mark-system"}]}),
    Feature(
        name="system-later",
        body={
            "messages": [
                _USER,
                {"role": "assistant", "content": "mark-a"},
                {"role": "system", "content": "mark-s"},
                _USER,
            ]
        },
    ),
    Feature(name="system-last", body={"messages": [_USER, {"role": "system", "content": "mark-system"}]}),
    Feature(name="users", body={"messages": [_USER, {"role": "user", "content": "mark-more"}]}),
    Feature(name="assistant-first", body={"messages": [{"role": "assistant", "content": "mark-hello"}, _USER]}),
    Feature(name="assistant-last", body={"messages": [_USER, {"role": "assistant", "content": "mark-prefill "}]}),
    Feature(name="empty-texts", body={"messages": [_USER, {"role": "assistant", "content": ""}, _USER]}),
    Feature(name="white-space", body=_says({"type": "text", "text": " \n"}, {"type": "text", "text": "mark-text"})),
    Feature(name="name", body={"messages": [{**_USER, "name": "anna"}]}, needs=(Need("messages.0.name"),)),
    Feature(
        name="refusal-in-history",
        body={"messages": [_USER, {"role": "assistant", "content": None, "refusal": "mark-refusal"}, _USER]},
    ),
)
_SAMPLING: Final = (
    *(
        Feature(
            name=f"temperature-{value}",
            body=_asks("plan-text", temperature=value),
            needs=(Need("temperature", "temperature", "generationConfig.temperature"),),
        )
        for value in (0, 0.3, 1.7)
    ),
    Feature(name="top-p", body=_asks("plan-text", top_p=0.5), needs=(Need("top_p", "top_p", "generationConfig.topP"),)),
    Feature(
        name="temperature-and-top-p",
        body=_asks("plan-text", temperature=0.2, top_p=0.9),
        needs=(
            Need("temperature", "temperature", "generationConfig.temperature"),
            Need("top_p", "top_p", "generationConfig.topP"),
        ),
    ),
    Feature(
        name="max-tokens",
        body=_asks("plan-length", max_tokens=77),
        needs=(Need("max_tokens", "max_tokens", "generationConfig.maxOutputTokens"),),
    ),
    Feature(
        name="max-completion-tokens",
        body=_asks("plan-text", max_completion_tokens=900),
        needs=(Need("max_completion_tokens", "max_tokens", "generationConfig.maxOutputTokens"),),
    ),
    Feature(
        name="max-tokens-huge",
        body=_asks("plan-text", max_tokens=500_000),
        needs=(Need("max_tokens", "max_tokens", "generationConfig.maxOutputTokens"),),
    ),
    Feature(
        name="stop",
        body=_asks("plan-stopped", stop="mark-stop"),
        needs=(Need("stop", "stop_sequences", "generationConfig.stopSequences", ["mark-stop"]),),
    ),
    Feature(name="stops", body=_asks("plan-text", stop=["mark-a", "mark-b", "mark-c", "mark-d"])),
    Feature(
        name="stop-white-space",
        body=_asks("plan-text", stop=["\n\n", "mark-stop"]),
        needs=(Need("stop", None, "generationConfig.stopSequences"),),
    ),
    Feature(
        name="penalties",
        body=_asks("plan-text", presence_penalty=0.5, frequency_penalty=-0.5),
        needs=(
            Need("presence_penalty", None, "generationConfig.presencePenalty"),
            Need("frequency_penalty", None, "generationConfig.frequencyPenalty"),
        ),
    ),
    Feature(
        name="unsupported",
        body=_asks("plan-text", seed=7, logit_bias={"5": 3}, logprobs=True, top_logprobs=2),
        needs=(
            Need("seed", None, "generationConfig.seed"),
            Need("logit_bias"),
            Need("logprobs", None, "generationConfig.responseLogprobs"),
            Need("top_logprobs", None, "generationConfig.logprobs"),
        ),
    ),
    Feature(name="seed-huge", body=_asks("plan-text", seed=2**40), needs=(Need("seed"),)),
    Feature(name="n", body=_asks("plan-text", n=1)),
    Feature(
        name="others",
        body=_asks(
            "plan-text",
            user="mark-user",
            metadata={"a": "b"},
            service_tier="flex",
            verbosity="low",
            store=False,
            safety_identifier="mark-identifier",
            prompt_cache_key="mark-cache",
            prediction={"type": "content", "content": "mark-prediction"},
            modalities=["text"],
        ),
        needs=(Need("user", "metadata.user_id"), Need("metadata"), Need("service_tier"), Need("verbosity")),
    ),
    *(
        Feature(name=f"user-{kind}", body=_asks("plan-text", user=user), needs=(Need("user", _has_user),))
        for kind, user in (("email", "anna@example.com"), ("long", "u" * 300), ("phone", "+49 171 1234567"))
        for _has_user in (lambda body: 0 < len(body["metadata"]["user_id"]) <= 256,)
    ),
)
_THINKING: Final = (
    *(_effort(name) for name in ("none", "minimal", "low", "medium", "high", "xhigh", "max")),
    _effort("high", max_tokens=500),
    _effort("medium", max_tokens=3000),
    _effort("low", temperature=0.5, top_p=0.99, max_tokens=20_000),
    Feature(
        name="effort-and-forced",
        body=_asks("plan-calls", reasoning_effort="high", tools=_LOOK, tool_choice="required"),
        needs=(Need("reasoning_effort", thinks, thinks), Need("tool_choice", has_forced, has_forced)),
        shows=True,
    ),
    Feature(
        name="effort-and-prefill",
        body={
            "messages": [_USER, {"role": "assistant", "content": "mark-prefill"}],
            "reasoning_effort": "medium",
        },
        needs=(Need("reasoning_effort", thinks, thinks),),
        shows=True,
    ),
    Feature(name="only-redacted", body=_asks("plan-only-redacted", reasoning_effort="low"), shows=True),
)
_ENDS: Final = tuple(
    Feature(name=plan, body=_asks(plan))
    for plan in ("plan-refused", "plan-window", "plan-paused", "plan-long", "plan-stopped")
)
_FORMATS: Final = (
    Feature(
        name="json-schema",
        body=_asks(
            "plan-json",
            response_format={
                "type": "json_schema",
                "json_schema": {
                    "name": "city",
                    "strict": True,
                    "schema": {
                        "type": "object",
                        "properties": {"city": {"type": "string", "description": "mark-city"}},
                        "required": ["city"],
                        "additionalProperties": False,
                    },
                },
            },
        ),
        needs=(Need("response_format", closed_format, closed_format),),
    ),
    *(
        Feature(
            name=f"json-schema-{kind}",
            body=_asks(
                "plan-json", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
            ),
            needs=(Need("response_format", closed_format, closed_format),),
        )
        for kind, schema in (
            (
                "constraints",
                {
                    "type": "object",
                    "properties": {
                        "n": {"type": "integer", "minimum": 1, "maximum": 9},
                        "s": {"type": "string", "minLength": 1, "pattern": "^a(?=b)", "format": "uri-reference"},
                        "l": {"type": "array", "items": {"type": "number"}, "minItems": 2, "uniqueItems": True},
                        "o": {"type": ["string", "null"]},
                        "e": {"enum": ["a", 1, None]},
                        "t": {"type": "array", "prefixItems": [{"type": "string"}]},
                    },
                    "patternProperties": {"^x": {"type": "string"}},
                },
            ),
            (
                "references",
                {
                    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
                    "type": "object",
                    "properties": {
                        "first": {"$ref": "#/$defs/node"},
                        "any": {},
                        "one": {"oneOf": [{"type": "string"}, {"type": "null"}]},
                    },
                },
            ),
            ("open", {"type": "object", "additionalProperties": {"type": "string"}}),
            ("array", {"type": "array", "items": {"type": "object", "properties": {"a": {"const": "b"}}}}),
            ("optional", {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(30)}}),
            (
                "unions",
                {
                    "type": "object",
                    "properties": {f"p{n}": {"type": ["string", "null"]} for n in range(20)},
                    "required": [f"p{n}" for n in range(20)],
                },
            ),
            (
                "all-of",
                {
                    "allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"$ref": "#/$defs/b"}],
                    "$defs": {"b": {"type": "object", "properties": {"b": {"type": "integer"}}}},
                },
            ),
        )
    ),
    Feature(
        name="json-schema-and-tools",
        body=_asks(
            "plan-calls",
            tools=_LOOK,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "object", "properties": {}}},
            },
        ),
        needs=(Need("response_format", closed_format, closed_format),),
    ),
    Feature(
        name="json-schema-and-prefill",
        body={
            "messages": [_USER, {"role": "assistant", "content": "mark-prefill"}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "object", "properties": {}}},
            },
        },
        needs=(Need("response_format", closed_format, closed_format),),
    ),
    Feature(name="text-format", body=_asks("plan-text", response_format={"type": "text"})),
)
_TOOLS: Final = (
    Feature(name="tools", body=_asks("plan-parallel", tools=_TWO)),
    Feature(name="tool-strict", body=_asks("plan-calls", tools=[_tool(strict=True)])),
    Feature(
        name="tools-strict-many", body=_asks("plan-calls", tools=[_tool(f"tool_{n}", strict=True) for n in range(30)])
    ),
    Feature(
        name="tools-strict-optional",
        body=_asks(
            "plan-calls",
            tools=[
                _tool(
                    f"tool_{n}",
                    strict=True,
                    parameters={"type": "object", "properties": {f"p{m}": {"type": "string"} for m in range(8)}},
                )
                for n in range(5)
            ],
        ),
    ),
    Feature(
        name="tool-names",
        body=_asks("plan-parallel", tools=[_tool("a.b"), _tool("x" * 128), _tool("0-start"), _tool("a_b")]),
    ),
    Feature(
        name="tool-without-parameters",
        body=_asks("plan-no-arguments", tools=[{"type": "function", "function": {"name": "look"}}]),
    ),
    *(
        Feature(name=f"tool-{kind}", body=_asks("plan-calls", tools=[_tool(parameters=schema)]))
        for kind, schema in (
            ("any-of", {"anyOf": [{"type": "object", "properties": {"at": {"type": "string"}}}, {"type": "object"}]}),
            ("no-type", {"properties": {"at": {"type": "string"}}}),
            ("empty", {}),
            (
                "references",
                {"type": "object", "$defs": {"p": {"type": "string"}}, "properties": {"at": {"$ref": "#/$defs/p"}}},
            ),
            (
                "draft-four",
                {"type": "object", "properties": {"at": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}}},
            ),
            ("required-inside", {"type": "object", "properties": {"at": {"type": "string", "required": True}}}),
            ("type-any", {"type": "object", "properties": {"at": {"type": "any", "description": "mark-any"}}}),
            (
                "null-members",
                {
                    "type": "object",
                    "properties": {"at": {"type": "string", "enum": None, "title": None}},
                    "required": None,
                },
            ),
            ("upper-case", {"type": "OBJECT", "properties": {"at": {"type": "STRING", "nullable": True}}}),
            ("tuple-items", {"type": "object", "properties": {"at": {"type": "array", "items": [{"type": "string"}]}}}),
        )
    ),
    Feature(
        name="tool-custom",
        body=_asks("plan-text", tools=[{"type": "custom", "custom": {"name": "look", "description": "mark-custom"}}]),
    ),
    *(
        Feature(
            name=f"choice-{kind}",
            body=_asks("plan-calls", tools=_TWO, tool_choice=choice),
            needs=(Need("tool_choice", place, place),),
        )
        for kind, choice, place in (
            ("auto", "auto", lambda body: not has_forced(body)),
            ("none", "none", lambda body: not has_forced(body)),
            ("required", "required", has_forced),
            (
                "named",
                {"type": "function", "function": {"name": "list_all"}},
                lambda body: has_forced(body) and has_text(body, "list_all"),
            ),
            (
                "allowed",
                {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "required",
                        "tools": [{"type": "function", "function": {"name": "look"}}],
                    },
                },
                names_one_tool,
            ),
        )
    ),
    Feature(
        name="not-parallel",
        body=_asks("plan-parallel", tools=_LOOK, parallel_tool_calls=False),
        needs=(Need("parallel_tool_calls", "tool_choice.disable_parallel_tool_use", None, True),),
    ),
    Feature(
        name="not-parallel-required",
        body=_asks("plan-parallel", tools=_LOOK, parallel_tool_calls=False, tool_choice="required"),
        needs=(
            Need("parallel_tool_calls", "tool_choice.disable_parallel_tool_use", None, True),
            Need("tool_choice", has_forced, has_forced),
        ),
    ),
)
_JSON_FILE: Final = "eyJhIjogMX0="


def _image(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def _file(name: str, media_type: str, data: str) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{media_type};base64,{data}"}}


_CONTENT_1: Final = "messages.0.content.1"
_HEAR: Final = {"type": "text", "text": "mark-text"}
_TYPES: Final = (
    *(
        Feature(
            name=f"image-{media_type[6:]}" + ("-said-to-be-png" if said == "image/png" else ""),
            body=_says(_HEAR, _image(said, data)),
            refused=dict.fromkeys(refusing, _CONTENT_1),
            needs=(Need(_CONTENT_1, *(lambda body, data=data: has_text(body, data),) * 2),),
        )
        for media_type, data, refusing in (
            ("image/bmp", BMP, ("anthropic", "gemini")),
            ("image/tiff", TIFF, ("anthropic", "gemini")),
            ("image/gif", GIF, ("gemini",)),
            ("image/heic", HEIC, ("anthropic",)),
        )
        for said in (media_type, "image/png")
    ),
    Feature(
        name="image-jpg",
        body=_says(_HEAR, _image("image/jpg", JPEG)),
        needs=(Need(_CONTENT_1, *(lambda body: has_text(body, JPEG),) * 2),),
    ),
    Feature(
        name="image-of-unknown-bytes-jpg",
        body=_says(_HEAR, _image("image/jpg", "bWFyaw==")),
        models=("gemini-2.5-flash", "gemini-3.8-flash"),
        needs=(Need(_CONTENT_1, None, lambda body: has_text(body, "image/jpeg")),),
    ),
    Feature(
        name="audio-mp3",
        body=_says(_HEAR, {"type": "input_audio", "input_audio": {"data": "bWFyaw==", "format": "mp3"}}),
        needs=(Need(_CONTENT_1, None, lambda body: has_text(body, "audio/mpeg")),),
    ),
    Feature(
        name="file-docx",
        body=_says(
            _HEAR,
            _file("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "UEsDBA=="),
        ),
        refused=dict.fromkeys(("anthropic", "gemini"), _CONTENT_1),
    ),
    Feature(
        name="file-json",
        body=_says(_HEAR, _file("a.json", "application/json", _JSON_FILE)),
        needs=(Need(_CONTENT_1, lambda body: has_text(body, '{\\"a\\": 1}'), lambda body: has_text(body, _JSON_FILE)),),
    ),
    Feature(
        name="file-markdown",
        body=_says(_HEAR, _file("a.md", "text/markdown", "bWFyay1tZA==")),
        needs=(Need(_CONTENT_1, lambda body: has_text(body, "mark-md"), lambda body: has_text(body, "bWFyay1tZA==")),),
    ),
)
_FILES: Final = (
    *_TYPES,
    Feature(
        name="image",
        body=_says(
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "text", "text": "mark-text"},
        ),
        needs=(Need("messages.0.content.0", lambda body: has_text(body, PNG), lambda body: has_text(body, PNG)),),
    ),
    Feature(
        name="image-wrong-type",
        body=_says({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{JPEG}", "detail": "high"}}),
        needs=(
            Need("messages.0.content.0.detail"),
            Need("messages.0.content.0", *(lambda body: has_text(body, JPEG),) * 2),
        ),
    ),
    Feature(
        name="image-url",
        body=_says({"type": "image_url", "image_url": {"url": "https://example.com/mark-image.png"}}),
    ),
    Feature(
        name="file",
        body=_says(
            {"type": "file", "file": {"filename": "mark-file.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
            {"type": "text", "text": "Read"},
        ),
        needs=(Need("messages.0.content.0", lambda body: has_text(body, PDF), lambda body: has_text(body, PDF)),),
    ),
    Feature(
        name="audio",
        body=_says(
            {"type": "input_audio", "input_audio": {"data": "bWFyaw==", "format": "wav"}},
            {"type": "text", "text": "Hear"},
        ),
        needs=(Need("messages.0.content.0", None, lambda body: has_text(body, "bWFyaw==")),),
    ),
)
_HISTORIES: Final = (
    Feature(
        name="called",
        body=_history({"role": "assistant", "content": None, "tool_calls": [_call("call_1")]}, _result("call_1")),
    ),
    Feature(
        name="called-empty-content",
        body=_history({"role": "assistant", "content": "", "tool_calls": [_call("call_1", "")]}, _result("call_1", "")),
    ),
    Feature(
        name="called-thinking",
        body=_history(
            {"role": "assistant", "content": "mark-said", "tool_calls": [_call("call_1")]},
            _result("call_1"),
            reasoning_effort="high",
            max_tokens=20_000,
        ),
        needs=(Need("reasoning_effort", thinks, thinks),),
        shows=True,
    ),
    Feature(
        name="called-twice-reversed",
        body=_history(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [_call("call_1"), _call("call_2", '{"at": "mark-second"}')],
            },
            _result("call_2", "mark-result-b"),
            _result("call_1", "mark-result-a plan-text"),
        ),
    ),
    Feature(
        name="called-same-id",
        body=_history(
            {"role": "assistant", "content": None, "tool_calls": [_call("call_1")]},
            _result("call_1", "mark-result-a"),
            {"role": "assistant", "content": None, "tool_calls": [_call("call_1", '{"at": "mark-second"}')]},
            _result("call_1", "mark-result-b plan-text"),
        ),
    ),
    Feature(
        name="called-same-id-at-once",
        body=_history(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [_call("call_1"), _call("call_1", '{"at": "mark-second"}')],
            },
            _result("call_1", "mark-result-a"),
            _result("call_1", "mark-result-b plan-text"),
        ),
    ),
    Feature(
        name="called-odd-id",
        body=_history(
            {"role": "assistant", "content": None, "tool_calls": [_call("call|1:x/ü")]}, _result("call|1:x/ü")
        ),
    ),
    Feature(
        name="called-and-asked",
        body=_history(
            {"role": "assistant", "content": "mark-said", "tool_calls": [_call("call_1")]}, _result("call_1"), _USER
        ),
    ),
    Feature(
        name="called-parts",
        body=_history(
            {"role": "assistant", "content": None, "tool_calls": [_call("call_1")]},
            _result("call_1", [{"type": "text", "text": "mark-one"}, {"type": "text", "text": "mark-two plan-text"}]),
        ),
    ),
    Feature(
        name="called-not-json",
        body=_history(
            {"role": "assistant", "content": None, "tool_calls": [_call("call_1", "mark-broken {")]}, _result("call_1")
        ),
    ),
    Feature(
        name="called-without-tools",
        body={
            "messages": [
                _USER,
                {"role": "assistant", "content": None, "tool_calls": [_call("call_1")]},
                _result("call_1"),
            ]
        },
    ),
    Feature(
        name="called-system-between",
        body=_history(
            {"role": "assistant", "content": None, "tool_calls": [_call("call_1")]},
            {"role": "system", "content": "mark-between"},
            _result("call_1"),
        ),
    ),
    Feature(
        name="legacy-functions",
        body={
            "messages": [
                _USER,
                {
                    "role": "assistant",
                    "content": None,
                    "function_call": {"name": "look", "arguments": '{"at": "mark-at"}'},
                },
                {"role": "function", "name": "look", "content": "mark-result plan-text"},
            ],
            "functions": [{"name": "look", "parameters": _OBJECT}],
        },
    ),
    Feature(
        name="thinking-in-history",
        body={
            "messages": [_USER, {"role": "assistant", "content": "mark-said", "reasoning_content": "Unsigned."}, _USER]
        },
    ),
)
_LOOPS: Final = tuple(
    Feature(
        name=f"loop-{plan}" + ("-forgets" if forgets else "") + ("" if effort is None else f"-{effort}"),
        body=_asks(plan, tools=_TWO, max_tokens=20_000, **({} if effort is None else {"reasoning_effort": effort})),
        turns=turns,
        shows=effort is not None,
        forgets=forgets,
    )
    for plan, turns in (
        ("plan-says-and-calls", (Turn("plan-calls"), Turn("plan-text"), Turn("plan-text", results=False))),
        ("plan-parallel", (Turn("plan-interleaved"), Turn("plan-redacted"), Turn("plan-text"))),
        ("plan-two-thoughts", (Turn("plan-two-thoughts"), Turn("plan-text"))),
    )
    for forgets in (False, True)
    for effort in (None, "medium")
)
_EDITED: Final = tuple(
    Feature(
        name="edited-" + ("tools" if "tools" in edits else "choice") + ("-shown" if effort else ""),
        body=_asks("plan-parallel", tools=_TWO, max_tokens=20_000, **({"reasoning_effort": "low"} if effort else {})),
        turns=(Turn("plan-interleaved"), Turn("plan-calls", edits=edits), Turn("plan-text")),
        shows=effort,
    )
    for edits in (
        {"tools": [*_TWO, _tool("third")]},
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]},
            }
        },
    )
    for effort in (False, True)
)

CHAT: Final = (*_TEXTS, *_SAMPLING, *_THINKING, *_ENDS, *_FORMATS, *_TOOLS, *_FILES, *_HISTORIES, *_LOOPS, *_EDITED)
