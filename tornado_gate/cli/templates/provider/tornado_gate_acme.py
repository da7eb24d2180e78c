"""Acme: a provider with a wire format of its own. Source: the page of the vendor's documentation, with its date."""

from collections.abc import AsyncIterator
from typing import get_args

from tornado_gate import errors, provider_impl, sse, types
from tornado_gate.wire.fitting import fit_request
from tornado_gate.wire.model_features import ChatFeatures, DroppableField

FIELDS = {"limit": "max_tokens", "heat": "temperature", "stop": "stop"}  # by member of the body
FEATURES = ChatFeatures(drops=tuple(n for n in get_args(DroppableField) if n not in FIELDS.values()), most_candidates=1)
FINISH_REASONS: dict[str, types.FinishReason] = {"done": "stop", "cut": "length"}


@provider_impl
def translate_request(call: types.Call, request: types.Request) -> types.UpstreamRequest:
    if not isinstance(request, types.ChatRequest):
        raise errors.UnsupportedOperation(f"The model '{call.model}' has chat only. Use another model.")
    chat = fit_request(call, request, FEATURES)
    for name in chat.extra:
        call.drop_field(name)
    body = {member: getattr(chat, field) for member, field in FIELDS.items() if getattr(chat, field) not in (None, ())}
    body["turns"] = [{"who": m.role, "says": read_text(call, chat, n)} for n, m in enumerate(chat.messages)]
    headers = {"Authorization": f"Bearer {call.target.api_key}", **call.target.headers}
    body["model"] = call.target.upstream_model
    return types.UpstreamRequest(url=f"{call.target.base_url}/v2/chat", headers=headers, json=body)


def read_text(call: types.Call, chat: types.ChatRequest, number: int) -> str:
    parts = chat.messages[number].parts
    for index, part in enumerate(parts):
        if not isinstance(part, types.Text):
            call.drop_field(chat.path(number, index))
    return "".join(part.text for part in parts if isinstance(part, types.Text))


@provider_impl
async def translate_response(call: types.Call, incoming: types.UpstreamResponse) -> AsyncIterator[types.StreamEvent]:
    yield types.ResponseStart(model=call.target.upstream_model)
    yield types.PartStart(index=0, kind="text")
    async for frame in sse.read_json_frames(incoming.chunks):
        if "fault" in frame:
            yield types.StreamError(error=errors.UpstreamError(f"The upstream failed: {frame['fault']}"))
        if "word" in frame:
            yield types.PartDelta(index=0, data=frame["word"])
        if "why" in frame:
            yield types.PartEnd(index=0)
            yield types.UsageReport(usage=types.Usage(input_tokens=frame["in"], output_tokens=frame["out"]))
            yield types.Finish(reason=FINISH_REASONS.get(frame["why"], "other"), raw=frame["why"])
