"""Whole responses: body to `ChatResult` (client half, lenient), and `ChatResult` to body (server half). Pure.

A blocked prompt has no candidates; it becomes one choice without parts and with finish reason "content_filter".

Source: google-genai 3.4, types.GenerateContentResponse and Candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.codec.large_json import dump_json
from tornado_gate.codec.text_files import UnreadableFile
from tornado_gate.errors import UpstreamError
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Data,
    FinishReason,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    VendorPart,
)
from tornado_gate.types.value import replace
from tornado_gate_gemini.wire.generate.audio import convert_to_wav, decode_base64
from tornado_gate_gemini.wire.generate.errors import find_error
from tornado_gate_gemini.wire.generate.function_calls import render_call
from tornado_gate_gemini.wire.generate.grounding import (
    CITATIONS,
    GROUNDING,
    URL_CONTEXT,
    GroundingWriter,
    read_citations,
    read_uses,
)
from tornado_gate_gemini.wire.generate.json_values import (
    parse_signature,
    read_call_id,
    read_object,
    read_objects,
    read_string,
    render_call_signature,
    render_signature,
    select_unknown,
)
from tornado_gate_gemini.wire.generate.logprobs import parse_logprobs, render_logprobs
from tornado_gate_gemini.wire.generate.names import convert_to_camel_case
from tornado_gate_gemini.wire.generate.parts import parse_part, render_part
from tornado_gate_gemini.wire.generate.server_tools import parse_code_part, render_code_parts
from tornado_gate_gemini.wire.generate.usage import (
    MALFORMED_CALL,
    find_block_reason,
    parse_finish_reason,
    parse_usage,
    render_finish,
    render_usage,
)

METADATA: Final = frozenset((GROUNDING, CITATIONS, URL_CONTEXT))
"""The members of a candidate about its sources."""

TOP_EXTRA: Final = ("promptFeedback", "createTime", "modelStatus")
"""The members of `ChatResult.extra` that this format supports."""

CHOICE_EXTRA: Final = (
    "safetyRatings",
    CITATIONS,
    GROUNDING,
    "groundingAttributions",
    URL_CONTEXT,
    "avgLogprobs",
    "tokenCount",
    "finishMessage",
)
"""The members of `Choice.extra` that this format supports."""

CANDIDATE_MEMBERS: Final = ("index", "content", "finishReason", "logprobsResult")
RESPONSE_MEMBERS: Final = ("candidates", "usageMetadata", "modelVersion", "responseId")


def make_call_id() -> str:
    """A new id for a function call without one, so that the tool result can refer to it."""
    return f"call_{make_unique_id()[:24]}"


def parse_response(body: Any, *, wav: bool = False) -> ChatResult:
    """The result of a whole response. Raises the upstream's error, or UpstreamError for a body of another format.

    With `wav`, raw samples are converted to a WAV file.
    """
    if (error := find_error(body)) is not None:
        raise error
    body = convert_to_camel_case(body)
    candidates = read_objects(read_object(body).get("candidates"))
    reason = find_block_reason(read_object(body))
    if not candidates and not reason:
        raise UpstreamError(
            "The upstream's response is not a Gemini response: it has no 'candidates'.",
            advice="Check the provider's base_url.",
        )
    choices = tuple(_parse_candidate(candidate, wav) for candidate in sorted(candidates, key=get_index))
    if not choices:
        message = read_block_message(read_object(body))
        choices = (Choice(parts=(), reason="content_filter", raw_reason=reason, explanation=message),)
    return ChatResult(
        model=read_string(body.get("modelVersion")),
        id=read_string(body.get("responseId")) or None,
        choices=choices,
        usage=parse_usage(body.get("usageMetadata")),
        extra={name: value for name, value in select_unknown(body, *RESPONSE_MEMBERS).items() if value is not None},
    )


def read_block_message(body: Mapping[str, Any]) -> str:
    """The reason in words why a prompt was blocked; "" if the vendor does not report it."""
    return read_string(read_object(body.get("promptFeedback")).get("blockReasonMessage"))


def read_explanation(reason: FinishReason, candidate: Mapping[str, Any]) -> str:
    """The reason in words why the content of a candidate was filtered; "" for other finish reasons."""
    return read_string(candidate.get("finishMessage")) if reason == "content_filter" else ""


def get_index(candidate: Mapping[str, Any]) -> int:
    index = candidate.get("index")
    return index if isinstance(index, int) else 0


def _parse_candidate(candidate: Mapping[str, Any], wav: bool) -> Choice:
    content = read_object(candidate.get("content"))
    parts = tuple(_parse_parts(read_objects(content.get("parts")), wav))
    if not METADATA.isdisjoint(candidate):
        parts = _add_sources(parts, candidate)
    raw = read_string(candidate.get("finishReason"))
    calls_tools = any(isinstance(part, ToolCall) for part in parts)
    entries = parse_logprobs(candidate.get("logprobsResult"))
    reason = parse_finish_reason(raw or "STOP", calls_tools)
    return Choice(
        parts=parts,
        reason=reason,
        raw_reason=raw,
        explanation=read_explanation(reason, candidate),
        logprobs={"content": list(entries)} if entries else None,
        extra={
            name: value for name, value in select_unknown(candidate, *CANDIDATE_MEMBERS).items() if value is not None
        },
    )


def _parse_parts(values: Sequence[Mapping[str, Any]], wav: bool) -> Iterator[Part]:
    code_id = ""
    for value in values:
        if "executableCode" in value:
            code_id = make_call_id()
        yield parse_said(value, wav, code_id)


def _add_sources(parts: tuple[Part, ...], candidate: Mapping[str, Any]) -> tuple[Part, ...]:
    """`parts` with the citations of their texts, after the uses of tools that the candidate has metadata about."""
    places = [index for index, part in enumerate(parts) if isinstance(part, Text)]
    texts = [(index, part.text) for index, part in enumerate(parts) if isinstance(part, Text)]
    updated = list(parts)
    for number, citation in read_citations(candidate, texts) if texts else ():
        text = updated[places[number]]
        assert isinstance(text, Text), "citations belong to texts"
        updated[places[number]] = replace(text, citations=(*text.citations, citation))
    first = places[0] if places else len(updated)
    return (*updated[:first], *read_uses(candidate, make_call_id), *updated[first:])


def parse_said(part: Mapping[str, Any], wav: bool = False, code_id: str = "") -> Part:
    """The common part of one response part; a call without an id gets one. `code_id` is the id of the last executed code."""
    call = part.get("functionCall")
    if not isinstance(call, dict):
        try:
            parsed = parse_part(part)
        except UnreadableFile as fault:
            raise UpstreamError(f"The upstream sent a file that {fault.reason}. Retry the request.") from None
        if isinstance(parsed, Audio) and isinstance(parsed.source, Data):
            decode_base64(parsed.source.base64)  # validate now: later code relies on valid base64
            return replace(parsed, source=convert_to_wav(parsed.source)) if wav else parsed
        if isinstance(parsed, VendorPart) and (use := parse_code_part(part, code_id)) is not None:
            return replace(parsed, server=use)
        return parsed
    signature = parse_signature(part.get("thoughtSignature"))
    return ToolCall(
        id=read_string(call.get("id")) or make_call_id(),
        name=read_string(call.get("name")),
        arguments=dump_json(call.get("args") or {}).decode(),
        signature=None if read_call_id(signature) else signature,
    )


def render_response(result: ChatResult, *, id: str, model: str, include_thoughts: bool = False) -> dict[str, Any]:
    """The response body. Thoughts are included only with `include_thoughts`, as in the vendor's API."""
    body: dict[str, Any] = {}
    if not (find_block_reason(result.extra) and not any(choice.parts for choice in result.choices)):
        body["candidates"] = [
            _render_choice(number, choice, include_thoughts) for number, choice in enumerate(result.choices)
        ]
    if result.usage is not None:
        body["usageMetadata"] = render_usage(result.usage)
    return body | {"modelVersion": model, "responseId": result.id or id} | select_known_extra(result.extra, *TOP_EXTRA)


def select_known_extra(extra: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The members of `extra` named in `names` that are not None; other members may belong to another format."""
    return {name: extra[name] for name in names if extra.get(name) is not None}


def _render_choice(number: int, choice: Choice, include_thoughts: bool) -> dict[str, Any]:
    parts, sources = _render_parts(choice.parts, include_thoughts)
    refusal = "".join(part.text for part in choice.parts if isinstance(part, Refusal))
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": parts},
        **render_finish(choice.reason, choice.raw_reason, refusal or choice.explanation, bool(refusal)),
        "index": number,
        **sources,
    }
    if any(is_malformed(part) for part in choice.parts):
        candidate |= {"finishReason": MALFORMED_CALL, "finishMessage": MALFORMED_MESSAGE}
    if choice.logprobs and choice.logprobs.get("content"):
        candidate["logprobsResult"] = render_logprobs(choice.logprobs["content"])
    return candidate | select_known_extra(choice.extra, *CHOICE_EXTRA)


def _render_parts(parts: Sequence[Part], include_thoughts: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rendered parts, and the members of the candidate about their sources.

    Adjacent texts with citations among them become one part, because clients count segments in the whole text.
    """
    cites = any(isinstance(part, Text) and part.citations for part in parts)
    rendered: list[dict[str, Any]] = []
    writer, thought = GroundingWriter(), False
    for part in parts:
        thought = thought or isinstance(part, Thinking)
        if isinstance(part, Thinking) and not include_thoughts:
            continue
        if isinstance(part, VendorPart) and part.server is not None:
            writer.add_use(part.server)
        values = render_code_parts(part) if isinstance(part, VendorPart) else []
        values = values or [value for value in (render_said(part, after_thinking=thought),) if value is not None]
        if cites and isinstance(part, Text) and rendered and rendered[-1].keys() == {"text"} == values[0].keys():
            base = len(rendered[-1]["text"].encode("utf-8", "surrogatepass"))
            writer.add_citations(part.citations, part.text, base, len(rendered) - 1)
            rendered[-1] = {"text": rendered[-1]["text"] + part.text}
            continue
        rendered += values
        if isinstance(part, Text):
            writer.add_citations(part.citations, part.text, 0, len(rendered) - 1)
    return rendered, writer.render()


MALFORMED_MESSAGE: Final = "The model returned a function call whose arguments are not a JSON object."


def is_malformed(part: Part) -> bool:
    """Return whether a call cannot be rendered because its arguments are not a JSON object."""
    return isinstance(part, ToolCall) and render_call(part) is None


def render_said(part: Part, *, after_thinking: bool = False) -> dict[str, Any] | None:
    """The response part with its signature; None for a part that this format cannot express.

    A call `after_thinking` without a signature gets one with its id, see `render_call_signature`.
    """
    if isinstance(part, VendorPart):
        return render_part(part)
    value = render_call(part) if isinstance(part, ToolCall) else render_part(part)
    if value is None:
        return None
    signature = render_signature(part.signature) if isinstance(part, Text | Thinking | ToolCall) else None
    if signature is None and after_thinking and isinstance(part, ToolCall) and part.id:
        signature = render_call_signature(part.id)
    return value if signature is None else {**value, "thoughtSignature": signature}
