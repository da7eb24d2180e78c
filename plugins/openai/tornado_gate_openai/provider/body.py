"""Body changes for one upstream, for verbatim and for translated requests. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate import REMOVE
from tornado_gate_openai.provider.settings import OpenAISettings

THINKING: Final = "reasoning_content"
"""The member of chat messages in which the gateway, and some vendors, show thinking."""


def compute_changes(facts: OpenAISettings, body: Mapping[str, Any], lose: Callable[[str], None]) -> dict[str, Any]:
    """Top-level members to replace, or to remove (REMOVE). Calls `lose` for each removed member that has a value."""
    changed: dict[str, Any] = {}
    for name in facts.drop:
        if name in body:
            changed[name] = REMOVE
            if body[name] is not None:
                lose(name)
    for name, other in facts.rename.items():
        if name in body and name not in changed:
            changed[name] = REMOVE
            if body.get(other) is None:
                changed[other] = body[name]
            elif body[name] is not None and body[name] != body[other]:
                lose(name)
    if facts.roles and (messages := _map_roles(facts.roles, body.get("messages"))) is not None:
        changed["messages"] = messages
    if not facts.usage_in_stream:
        changed["stream_options"] = REMOVE
    return changed


def apply_changes(changed: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """`body` with the changes applied."""
    if not changed:
        return dict(body)
    merged = {**body, **changed}
    return {name: value for name, value in merged.items() if value is not REMOVE}


def drop_thinking(messages: Any, lose: Callable[[str], None]) -> list[Any] | None:
    """The messages of a chat without ``reasoning_content``; None when none has it. Calls `lose` with the path of each.

    The gateway shows the thinking of other vendors' models in this member, which many clients send back. The vendor itself has no
    such member and rejects it. Source: openai-python 3.52, types/chat/chat_completion_assistant_message_param.py.
    """
    if not isinstance(messages, list):
        return None
    thinking = [
        number
        for number, message in enumerate(messages)
        if isinstance(message, dict) and message.get("role") == "assistant" and THINKING in message
    ]
    if not thinking:
        return None
    kept = list(messages)
    for number in thinking:
        if messages[number][THINKING]:
            lose(f"messages.{number}.{THINKING}")
        kept[number] = {name: value for name, value in messages[number].items() if name != THINKING}
    return kept


def _map_roles(roles: Mapping[str, str], messages: Any) -> list[Any] | None:
    """The messages with mapped roles; None when no role is to be mapped.

    Only chat messages have been validated: an embeddings body may have any value under this name.
    """
    if not isinstance(messages, list) or not any(_get_role(message) in roles for message in messages):
        return None
    return [
        {**message, "role": roles[_get_role(message)]} if _get_role(message) in roles else message
        for message in messages
    ]


def _get_role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else ""
