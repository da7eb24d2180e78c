"""The abilities of an upstream's chat models, and translated requests that fit their model. Pure.

The facts about OpenAI's models are in `models.yaml`. Models of other upstreams are unknown: they get the struct's defaults, which
accept everything except custom tools. Both are refined by the entry's ``model_rules``. Requests in the upstream's own format are
not changed.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Part, Reasoning, Thinking, VendorTool
from tornado_gate.types.value import replace
from tornado_gate.wire.fitting import find_dropped, fit_request, has_begun_answer, report_begun_answer
from tornado_gate.wire.reasoning import find_effort, fit_effort
from tornado_gate.wire.tool_names import fit_tools
from tornado_gate_openai.provider import content, schemas
from tornado_gate_openai.provider.features import Api, OpenAIModelFeatures
from tornado_gate_openai.wire import formats

FORMAT_OF_API: Final = {"chat": formats.OPENAI_CHAT, "responses": formats.OPENAI_RESPONSES}
_SAMPLING_FIELDS: Final = ("temperature", "top_p", "logprobs", "top_logprobs")
_DEFAULT_EFFORT: Final = "medium"


def needs_responses(request: ChatRequest, features: OpenAIModelFeatures) -> bool:
    """Return whether only the responses API can serve `request`, for a model that otherwise gets chat completions."""
    reasoning = request.reasoning
    if reasoning is not None and features.efforts:
        shown = features.summaries and not features.chat_thinking and (reasoning.visible or reasoning.summary)
        effort = _get_asked_effort(reasoning, features)
        if (shown and effort != "none") or effort in features.responses_efforts:
            return True
    return features.chat_files is not None and content.has_other_content(request, features.chat_files)


def fit_chat(call: Call, request: ChatRequest, features: OpenAIModelFeatures, api: Api) -> ChatRequest:
    """`request` as the model accepts it at `api`. Reports each loss to `call.drop_field`."""
    if api == "chat":
        request = _drop_own_reasoning(call, request)
    if request.wire_format == FORMAT_OF_API[api]:
        return request
    request = fit_tools(call, request, features)
    if not features.prefill and request.wire_format not in FORMAT_OF_API.values() and has_begun_answer(request):
        report_begun_answer(call, request)  # the model writes a new response
    if api == "chat":
        features = replace(features, server_tools=features.chat_server_tools)
    request = fit_request(call, request, features)
    request = schemas.fit_schemas(call, request, features)
    request = content.fit_content(call, request, content.ContentRules.of(features, api))
    request = _fit_reasoning(call, request, features, api)
    request = _fit_sampling(call, request, features)
    least = features.least_output
    if api == "responses" and least is not None and request.max_tokens is not None and request.max_tokens < least:
        call.drop_field(request.field_name("max_tokens"))
        request = replace(request, max_tokens=least)
    return request


def wants_server_tool(request: ChatRequest, features: OpenAIModelFeatures) -> bool:
    """Return whether a request has a server tool that the model has at the responses API only."""
    return any(
        isinstance(tool, VendorTool)
        and tool.server is not None
        and tool.server.kind in features.server_tools
        and tool.server.kind not in features.chat_server_tools
        for tool in request.tools
    )


def _drop_own_reasoning(call: Call, request: ChatRequest) -> ChatRequest:
    """`request` without encrypted reasoning that this upstream issued, which only the responses API accepts.

    It is not a loss: the caller did not send it, or got it from the other API of the same model.
    """
    for message in request.messages:
        if Thinking in map(type, message.parts):
            break
    else:
        return request  # most requests
    issuer = call.target.provider
    messages = tuple(
        replace(message, parts=tuple(part for part in message.parts if not _is_issued_by(part, issuer)))
        if any(_is_issued_by(part, issuer) for part in message.parts)
        else message
        for message in request.messages
    )
    return request if messages == request.messages else replace(request, messages=messages)


def _is_issued_by(part: Part, issuer: str) -> bool:
    return isinstance(part, Thinking) and part.signature is not None and part.signature.issuer == issuer


def _fit_reasoning(call: Call, request: ChatRequest, features: OpenAIModelFeatures, api: Api) -> ChatRequest:
    """`request` with an effort that the model accepts. One that was computed from a budget is replaced without a report."""
    if features.efforts is None:
        return request
    request = _fit_summary(call, request, features, api)
    reasoning = request.reasoning
    if api == "chat" and request.tools and features.tools_api == "responses" and "none" in features.efforts:
        return _refrain_from_reasoning(call, request, features)
    if reasoning is None:
        return request
    wanted_effort = _get_asked_effort(reasoning, features)
    if not features.efforts:
        if wanted_effort not in (None, "none") or reasoning.enabled:
            call.drop_field(request.field_name("reasoning"))
        return replace(request, reasoning=None)
    efforts = features.efforts
    if api == "chat":
        efforts = tuple(effort for effort in efforts if effort not in features.responses_efforts)
    fitted = wanted_effort and fit_effort(wanted_effort, efforts)
    if fitted == reasoning.effort and wanted_effort is not None:
        return request
    computed = reasoning.effort is None and (reasoning.budget_tokens or 0) > 0
    if fitted != wanted_effort and (not computed or fitted is None):
        call.drop_field(request.field_name("reasoning"))
    return replace(request, reasoning=Reasoning(effort=fitted, summary=reasoning.summary, visible=reasoning.visible))


def _fit_summary(call: Call, request: ChatRequest, features: OpenAIModelFeatures, api: Api) -> ChatRequest:
    """`request` without the wish to see the reasoning where it cannot be seen."""
    reasoning = request.reasoning
    if reasoning is None or not (reasoning.summary or reasoning.visible):
        return request
    if features.efforts and (features.summaries if api == "responses" else features.chat_thinking):
        return request
    effort = _get_asked_effort(reasoning, features)
    if effort != "none" and (
        features.efforts or effort is None
    ):  # a model without efforts: the requested effort itself is reported
        call.drop_field(request.field_name("reasoning.summary"))
    return replace(request, reasoning=replace(reasoning, summary=None, visible=False))


def _refrain_from_reasoning(call: Call, request: ChatRequest, features: OpenAIModelFeatures) -> ChatRequest:
    """`request` with the effort none: at the chat API the model calls tools only then."""
    effort = _get_asked_effort(request.reasoning, features) if request.reasoning is not None else None
    if effort not in (None, "none"):
        call.drop_field(request.field_name("reasoning"))
    return replace(request, reasoning=Reasoning(effort="none"))


def _get_asked_effort(reasoning: Reasoning, features: OpenAIModelFeatures) -> str | None:
    """The requested effort; None for reasoning without one at a model that reasons by default."""
    if reasoning.effort is not None:
        return reasoning.effort
    if reasoning.enabled is False or reasoning.budget_tokens == 0:
        return "none"
    if reasoning.budget_tokens is not None and reasoning.budget_tokens > 0:
        return find_effort(reasoning.budget_tokens)
    is_enabled = reasoning.enabled or reasoning.budget_tokens is not None
    return _DEFAULT_EFFORT if is_enabled and features.default_effort == "none" else None


def _fit_sampling(call: Call, request: ChatRequest, features: OpenAIModelFeatures) -> ChatRequest:
    if features.sampling == "always":
        return request
    effort = (request.reasoning.effort if request.reasoning else None) or features.default_effort
    if features.sampling == "without_reasoning" and effort == "none":
        return request
    return replace(request, **find_dropped(call, request, _SAMPLING_FIELDS))


def drop_tool_members(call: Call, request: ChatRequest, body: dict[str, Any], api: Api) -> None:
    """Remove the members about tools from a body without tools, which the vendor rejects."""
    if "tools" in body or request.wire_format == FORMAT_OF_API[api]:
        return
    body.pop("parallel_tool_calls", None)
    if "tool_choice" in body and body.pop("tool_choice") not in ("auto", "none"):
        call.drop_field(request.field_name("tool_choice"))


def drop_chat_members(call: Call, request: ChatRequest, features: OpenAIModelFeatures, body: dict[str, Any]) -> None:
    """Remove from the body of a chat what the vendor rejects: ``metadata`` of one that is not stored, sound of a silent model."""
    if "metadata" in body and features.stored_metadata and body.get("store") is not True and body.pop("metadata"):
        call.drop_field(request.field_name("metadata"))
    if "modalities" in body and not features.audio:
        _drop_sound(call, request, body)


def _drop_sound(call: Call, request: ChatRequest, body: dict[str, Any]) -> None:
    """Remove the request for sound; a list with text alone is the default, so it is removed too."""
    modalities = [modality for modality in body["modalities"] if modality != "audio"]
    if len(modalities) < len(body["modalities"]):
        call.drop_field(request.field_name("modalities"))
    if body.pop("audio", None) is not None:
        call.drop_field(request.field_name("audio"))
    body["modalities"] = modalities
    if modalities in ([], ["text"]):
        del body["modalities"]
