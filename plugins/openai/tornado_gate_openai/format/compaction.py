"""Compactions of conversations: ``POST /v1/responses/compact``, and a ``compaction_trigger`` in the input of ``/v1/responses``.

An upstream with this route gets the request unchanged. For all other models the gateway requests a summary from the model and
returns it as a compaction item, see `tornado_gate_openai.wire.responses.compaction`. Codex compacts in one of these two ways if
it treats its provider as OpenAI. It has no other way if that fails (router-for-me/CLIProxyAPI pull request 5857 and
caozhiyuan/copilot-api issue 359, read 2026-11-22). A test ran Codex 0.169.0 with this route.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.checks import raise_missing
from tornado_gate.errors import InvalidField
from tornado_gate.streams import stages
from tornado_gate.streams.events import close, collect
from tornado_gate.types import Call, ChatRequest, Reply, StreamEvent, Usage, VendorPart
from tornado_gate.types.value import Value, field, replace
from tornado_gate_openai.fields.responses import check_state_body
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.format.response_fields import select_unsupported
from tornado_gate_openai.format.stored import history, storing
from tornado_gate_openai.wire import responses

_NOT_OF_A_SUMMARY: Final = frozenset(
    (
        "background", "context_management", "conversation", "include", "input", "max_tool_calls", "parallel_tool_calls",
        "previous_response_id", "store", "text", "tool_choice", "tools", "top_logprobs", "truncation",
    )
)  # fmt: skip
"""Members of a body that do not concern the request for a summary, which has no tools and is a text."""


class CompactionState(Value, frozen=True, kw_only=True):
    """Response state of ``POST /v1/responses/compact``: the user messages that the compacted conversation keeps."""

    kept: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)


def check_compaction(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field of a body of ``POST /v1/responses/compact``."""
    check_state_body(body)
    if all(body.get(name) is None for name in ("input", "previous_response_id", "conversation")):
        raise_missing("input")


async def parse_compaction_request(call: Call, body: Mapping[str, Any]) -> ChatRequest:
    """Return the request for a summary of the conversation in a checked body."""
    if body.get("stream") is True:
        raise InvalidField("stream", "'stream' is not supported by this route. Omit it.", code="unsupported_parameter")
    storing.check_previous_response(call, body)
    loaded = await history.load(call, body)
    kept = responses.select_user_messages([*loaded.earlier, *loaded.items])
    request = make_summary_request(body, loaded)
    # a summary takes longer than most upstreams may take for the first bytes of a whole response
    extra = select_unsupported(request.extra)
    return replace(request, stream=True, extra=extra, reply_state=CompactionState(kept=tuple(kept)))


def make_summary_request(body: Mapping[str, Any], past: history.History) -> ChatRequest:
    """Return the request for a summary of a conversation; a `compaction_trigger` in it is the place of the prompt."""
    items = past.items
    if not responses.has_trigger(items):
        items = [*items, {"type": "compaction_trigger"}]
    members = {name: value for name, value in body.items() if name not in _NOT_OF_A_SUMMARY}
    return responses.parse_request(
        {**members, "input": responses.render_transcript(items)},
        responses.render_transcript(past.earlier, past.path),
    )


def make_compaction_reply(
    call: Call, request: ChatRequest, state: CompactionState, events: AsyncIterator[StreamEvent]
) -> Reply:
    """Return the response of ``POST /v1/responses/compact``: the user messages, then the compaction item."""
    return Reply(content_type=JSON_TYPE, chunks=_render_compaction(state, events), collected=True)


async def _render_compaction(state: CompactionState, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    response_id = responses.make_response_id()
    events = summarize(events, response_id)
    try:
        result = await collect(events)
    finally:
        await close(events)
    stem = response_id.removeprefix("resp_")
    kept = [{"id": f"msg_{stem}{number:04x}", **item} for number, item in enumerate(state.kept)]
    body = {
        "id": response_id,
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*kept, *(dict(part.value) for part in result.choices[0].parts if isinstance(part, VendorPart))],
        "usage": responses.render_usage(result.usage or Usage()),
    }
    yield orjson.dumps(body)


def summarize(events: AsyncIterator[StreamEvent], response_id: str) -> AsyncIterator[StreamEvent]:
    """Return the events of a chat with its text replaced by a compaction item."""
    item_id = response_id.replace("resp_", "cmp_", 1)
    return stages.add_step(events, responses.CompactionStep(item_id))
