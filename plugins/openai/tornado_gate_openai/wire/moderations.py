"""OpenAI's moderations API: parsing and rendering of requests and responses. No I/O; validates only image URLs.

``input`` is a string, an array of strings, or an array of objects that together form one input of texts and images.

Source: openai-python 3.52, types/moderation_create_params.py, types/moderation_create_response.py and types/moderation.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.http.fetch.pictures import parse_image_source
from tornado_gate.types import Call, Data, Image, Link, ModerationRequest, ModerationResult, Part, Text, Verdict
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.chat.parts import add_extra, select_unknown, select_unknown_members
from tornado_gate_openai.wire.chat.usage import parse_usage

WIRE_FORMAT: Final = formats.OPENAI_MODERATIONS
ID_PREFIX: Final = "modr-"
FIELD_NAMES: Final[Mapping[str, str]] = {"inputs": "input"}
CATEGORIES: Final = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
"""The categories that the vendor's SDK expects in every verdict."""

_RESULT_MEMBERS: Final = ("flagged", "categories", "category_scores", "category_applied_input_types")


def parse_request(body: Mapping[str, Any], *, model: str) -> ModerationRequest:
    """Return the common request for a validated body. Raises InvalidField for an image without data or a usable URL."""
    value = body["input"]
    if isinstance(value, str):
        inputs: tuple[tuple[Part, ...], ...] = ((Text(text=value),),)
    elif isinstance(value[0], str):
        inputs = tuple((Text(text=text),) for text in value)
    else:
        inputs = (tuple(_parse_part(part, f"input.{number}") for number, part in enumerate(value)),)
    extra = {name: member for name, member in select_unknown(body, "model", "input").items() if member is not None}
    return ModerationRequest(model=model, wire_format=WIRE_FORMAT, inputs=inputs, extra=extra, names=FIELD_NAMES)


def _parse_part(part: Mapping[str, Any], path: str) -> Part:
    if part["type"] == "text":
        return Text(text=part["text"], extra=select_unknown(part, "type", "text"))
    extra = select_unknown_members(part, "type", inside="image_url", inner=("url",))
    return Image(source=parse_image_source(part["image_url"]["url"], f"{path}.image_url.url"), extra=extra)


def render_request(call: Call, request: ModerationRequest) -> dict[str, Any]:
    """Return the body for an upstream. Unknown fields of another wire format are dropped.

    Raises InvalidField if one of several inputs is not a plain text, because this format cannot express such a list.
    """
    own = request.wire_format == WIRE_FORMAT
    body: dict[str, Any] = {"model": call.target.upstream_model, "input": _render_inputs(request, own)}
    for name, value in request.extra.items():
        if own:
            body.setdefault(name, value)
        else:
            call.drop_field(name)
    return body


def _render_inputs(request: ModerationRequest, own: bool) -> Any:
    single = [parts[0] for parts in request.inputs if len(parts) == 1]
    texts = [part.text for part in single if isinstance(part, Text) and not (own and part.extra)]
    if len(texts) == len(request.inputs):
        return texts[0] if len(texts) == 1 else texts
    name = request.field_name("inputs")
    if len(request.inputs) != 1:
        message = (
            f"'{name}' must be a single input for this model unless all inputs are strings. Send one request per input."
        )
        raise InvalidField(name, message, code="unsupported_value")
    return [_render_part(part, name, own) for part in request.inputs[0]]


def _render_part(part: Part, name: str, own: bool) -> dict[str, Any]:
    match part:
        case Text(text=text):
            value: dict[str, Any] = {"type": "text", "text": text}
        case Image(source=Link(url=url)):
            value = {"type": "image_url", "image_url": {"url": url}}
        case Image(source=Data(media_type=media_type, base64=data)):
            url = f"data:{media_type};base64,{data}" if media_type else data
            value = {"type": "image_url", "image_url": {"url": url}}
        case _:
            message = f"'{name}' contains a part that this model does not support. Send only texts and images."
            raise InvalidField(name, message, code="unsupported_value")
    return add_extra(value, part.extra, inside="image_url") if own else value


def check_response(body: Any) -> Sequence[Mapping[str, Any]]:
    """Return ``results`` of a response. Raises the error in the body, or UpstreamError if the shape is wrong."""
    if (error := find_error(body)) is not None:
        raise error
    if not isinstance(body, Mapping) or not is_array_of_objects(body.get("results")):
        raise wrong_format_error()
    results: list[Mapping[str, Any]] = body["results"]
    return results


def parse_response(body: Any) -> ModerationResult:
    """Parse a whole response. Raises the same errors as `check_response`, and UpstreamError for an invalid verdict."""
    results = check_response(body)
    identity, model = body.get("id"), body.get("model")
    return ModerationResult(
        verdicts=tuple(_parse_verdict(result) for result in results),
        model=model if isinstance(model, str) else "",
        id=identity if isinstance(identity, str) else None,
        usage=parse_usage(body.get("usage")),
    )


def _parse_verdict(result: Mapping[str, Any]) -> Verdict:
    """Parse one result. A category that is null was not evaluated and is left out."""
    categories, scores = result.get("categories"), result.get("category_scores")
    if not isinstance(result.get("flagged"), bool) or not isinstance(categories, dict) or not isinstance(scores, dict):
        raise UpstreamError("The upstream returned a moderation result without flagged, categories or category_scores.")
    applied = result.get("category_applied_input_types")
    return Verdict(
        flagged=result["flagged"],
        categories={name: value for name, value in categories.items() if isinstance(value, bool)},
        scores={name: float(value) for name, value in scores.items() if type(value) in (int, float)},
        applied={name: value for name, value in applied.items() if isinstance(value, list)}
        if isinstance(applied, dict)
        else None,
        extra=select_unknown(result, *_RESULT_MEMBERS),
    )


def render_response(
    result: ModerationResult, *, id: str, model: str, kinds: Sequence[Sequence[str]] = ()
) -> dict[str, Any]:
    """Return the whole response. `kinds` lists the content kinds of each input, for verdicts without applied input types."""
    own_id = result.id if result.id and result.id.startswith(ID_PREFIX) else id
    known = [kinds[index] if index < len(kinds) else ("text",) for index in range(len(result.verdicts))]
    results = [_render_verdict(verdict, kind) for verdict, kind in zip(result.verdicts, known, strict=True)]
    return {"id": own_id, "model": model, "results": results}


def _render_verdict(verdict: Verdict, kinds: Sequence[str]) -> dict[str, Any]:
    """Return one result with every category the SDK expects. A category that was not evaluated is false and has no types."""
    judged = dict.fromkeys([*CATEGORIES, *verdict.categories, *verdict.scores])
    applied = verdict.applied
    if applied is None:
        applied = {name: list(kinds) for name in judged if name in verdict.categories or name in verdict.scores}
    return {
        **verdict.extra,
        "flagged": verdict.flagged,
        "categories": {name: verdict.categories.get(name, False) for name in judged},
        "category_scores": {name: verdict.scores.get(name, 0.0) for name in judged},
        "category_applied_input_types": {name: list(applied.get(name, ())) for name in judged},
    }
