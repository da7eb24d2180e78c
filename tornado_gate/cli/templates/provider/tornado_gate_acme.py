"""Acme: a provider with a wire format of its own. Source: the page of the vendor's documentation, with its date."""

from collections.abc import AsyncIterator

from tornado_gate import errors, provider_impl, sse, types
from tornado_gate.wire.unsent_fields import fit_text_chat, read_text

FIELDS = {"limit": "max_tokens", "heat": "temperature", "stop": "stop"}  # by member of the body; others are reported
FINISH_REASONS: dict[str, types.FinishReason] = {"done": "stop", "cut": "length"}


@provider_impl
def translate_request(call: types.Call, request: types.Request) -> types.UpstreamRequest:
    chat = fit_text_chat(call, request, FIELDS.values())
    body = {member: getattr(chat, field) for member, field in FIELDS.items() if getattr(chat, field) not in (None, ())}
    body["turns"] = [{"who": message.role, "says": read_text(message)} for message in chat.messages]
    return types.UpstreamRequest(
        url=f"{call.target.base_url}/v2/chat",
        headers={**call.target.headers, "Authorization": f"Bearer {call.target.api_key}"},
        json={"model": call.target.upstream_model, **body},
    )


@provider_impl
async def translate_response(call: types.Call, incoming: types.UpstreamResponse) -> AsyncIterator[types.StreamEvent]:
    yield types.ResponseStart(model=call.target.upstream_model)
    yield types.PartStart(index=0, kind="text")
    async for frame in sse.read_json_frames(incoming.chunks, incoming.provider):
        if "fault" in frame:
            yield types.StreamError(error=errors.UpstreamError(f"The upstream failed: {frame['fault']}"))
        if "word" in frame:
            yield types.PartDelta(index=0, data=frame["word"])
        if "why" in frame:
            yield types.PartEnd(index=0)
            yield types.UsageReport(usage=types.Usage(input_tokens=frame["in"], output_tokens=frame["out"]))
            yield types.Finish(reason=FINISH_REASONS.get(frame["why"], "other"), raw=frame["why"])
