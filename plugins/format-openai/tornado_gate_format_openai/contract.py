"""A response in the contract's dialect: messages whose content parts are of type ``text``. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.types import Usage
from tornado_gate.wire import openai_responses
from tornado_gate_format_openai.dialect import has_only

CONTRACT_FIELDS: Final = frozenset(("model", "input", "instructions", "reasoning"))
"""What the contract shows of a request's body; its `input` is a string."""

_REASONING_MEMBERS: Final = frozenset(("effort", "summary"))
_KEPT_MEMBERS: Final = ("id", "object", "created_at", "status", "model")


def is_within(body: Mapping[str, Any]) -> bool:
    """Whether a body that was checked holds nothing beyond the contract."""
    reasoning = body.get("reasoning") or {}
    return (
        has_only(body, CONTRACT_FIELDS)
        and isinstance(body.get("input"), str)
        and has_only(reasoning, _REASONING_MEMBERS)
    )


def render_response(body: Mapping[str, Any]) -> dict[str, Any]:
    """`body`, a response in the vendor's dialect, in the contract's.

    There is always something said, and always usage. A summary of the reasoning that came is in ``reasoning.summary``. Calls
    of tools, which come when conf wants this dialect for a client that goes beyond the contract, stay as they are.
    """
    items = [item for item in body.get("output") or () if isinstance(item, Mapping)]
    said = [
        _render_message(item) if item.get("type") == "message" else item for item in items if not _is_reasoning(item)
    ]
    answer = {name: body.get(name) for name in _KEPT_MEMBERS}
    answer["output"] = said or [_render_empty_message(str(body.get("id")), str(body.get("status")))]
    answer["usage"] = render_usage(body.get("usage"))
    if body.get("incomplete_details"):
        answer["incomplete_details"] = body["incomplete_details"]
    if body.get("error"):
        answer["error"] = body["error"]
    if summary := "\n\n".join(text for item in items for text in _iterate_summary(item)):
        answer["reasoning"] = {**(body.get("reasoning") or {}), "summary": summary}
    return answer


def render_usage(value: Any) -> dict[str, Any]:
    """Usage in both spellings, of whichever it came in."""
    return openai_responses.render_usage(openai_responses.parse_usage(value) or Usage())


def _is_reasoning(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "reasoning"


def _render_message(item: Mapping[str, Any]) -> dict[str, Any]:
    content = [_render_text(part) for part in item.get("content") or () if isinstance(part, Mapping)]
    return {**item, "content": content}


def _render_text(part: Mapping[str, Any]) -> dict[str, Any]:
    """A refusal is the model's text too. What else an upstream says of a text is kept when it says something."""
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
