"""A response in the contract's dialect: messages whose content parts are of type ``text``. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.types import Usage
from tornado_gate_openai.format.dialect import has_only
from tornado_gate_openai.wire import responses

CONTRACT_FIELDS: Final = frozenset(("model", "input", "instructions", "reasoning"))
"""The fields of a request body in the contract. `input` is a string there."""

EFFORTS: Final = ("low", "medium", "high")
"""The values of ``reasoning.effort`` in the contract."""

_REASONING_MEMBERS: Final = frozenset(("effort", "summary"))
_KEPT_MEMBERS: Final = ("id", "object", "created_at", "status", "model")


def is_within(body: Mapping[str, Any]) -> bool:
    """Return whether a checked body has only fields and values of the contract."""
    reasoning = body.get("reasoning") or {}
    return (
        has_only(body, CONTRACT_FIELDS)
        and isinstance(body.get("input"), str)
        and has_only(reasoning, _REASONING_MEMBERS)
    )


def render_response(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert `body`, a response in the vendor's dialect, to the contract's dialect.

    The result always has at least one output item, and usage. Summaries of reasoning items are joined in ``reasoning.summary``.
    Tool calls are copied unchanged; they occur when conf sets ``dialect: contract`` for clients that send tools.
    """
    items = [item for item in body.get("output") or () if isinstance(item, Mapping)]
    choices = [
        _render_message(item) if item.get("type") == "message" else item for item in items if not _is_reasoning(item)
    ]
    answer = {name: body.get(name) for name in _KEPT_MEMBERS}
    answer["output"] = choices or [_render_empty_message(str(body.get("id")), str(body.get("status")))]
    answer["usage"] = render_usage(body.get("usage"))
    if body.get("incomplete_details"):
        answer["incomplete_details"] = body["incomplete_details"]
    if body.get("error"):
        answer["error"] = body["error"]
    if summary := "\n\n".join(text for item in items for text in _iterate_summary(item)):
        answer["reasoning"] = {**(body.get("reasoning") or {}), "summary": summary}
    return answer


def render_usage(value: Any) -> dict[str, Any]:
    """Return usage with the field names of both dialects; `value` may use either."""
    return responses.render_usage(responses.parse_usage(value) or Usage())


def _is_reasoning(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "reasoning"


def _render_message(item: Mapping[str, Any]) -> dict[str, Any]:
    content = [_render_text(part) for part in item.get("content") or () if isinstance(part, Mapping)]
    return {**item, "content": content}


def _render_text(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part with type ``text``. A refusal becomes text too; other members are kept unless they are empty."""
    text = part.get("text", part.get("refusal"))
    rest = {name: value for name, value in part.items() if name not in ("type", "text", "refusal") and value}
    return {"type": "text", "text": text, **rest}


def _render_empty_message(response_id: str, status: str) -> dict[str, Any]:
    content = [{"type": "text", "text": ""}]
    item_id = response_id.replace("resp_", "msg_", 1)
    return {"type": "message", "id": item_id, "status": status, "role": "assistant", "content": content}


def _iterate_summary(item: Mapping[str, Any]) -> Iterator[str]:
    if _is_reasoning(item):
        yield from (str(part["text"]) for part in item.get("summary") or () if part.get("text"))
