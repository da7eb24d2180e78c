"""The objects that a response leaves at its upstream, and the input items that the upstream looks up by id. No I/O.

Source: openai-python 3.52, types/responses/response_input_item_param.py and response_output_item.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate_openai.wire.responses.server_tools import CALL_TYPES, MADE_HERE

_COMPLETE_TYPES: Final = ("message", "function_call", "custom_tool_call")
_OUTPUT_SUFFIX: Final = "_output"
_TOOL_TYPES: Final = tuple({kind for kind, _ in CALL_TYPES.values()})
_MADE_ID: Final = re.compile(r"[a-z]{2,12}_[0-9a-f]{32}(?:[0-9a-f]{4})?")
"""The ids of items in the gateway's own responses and conversations. Those of the vendor have 48 or 50 digits."""


def is_self_contained(item: Mapping[str, Any]) -> bool:
    """Return whether an item has its whole content, so that the upstream need not look it up by its id.

    The others are references, and calls of the vendor's tools, reasoning and images, whose content only the upstream has.
    """
    if item.get("encrypted_content") or is_made_here(item):
        return True
    kind = item.get("type")
    if kind is None:
        return "role" in item
    if kind == "additional_tools":  # codex makes the ids of these items itself
        return isinstance(item.get("tools"), list)
    return kind in _COMPLETE_TYPES or (isinstance(kind, str) and kind.endswith(_OUTPUT_SUFFIX))


def is_made_here(item: Any) -> bool:
    """Return whether an item about a server tool is the gateway's, for a response of another vendor. No upstream has it."""
    if not isinstance(item, Mapping) or item.get("type") not in _TOOL_TYPES:
        return False
    identity = item.get("id")
    return isinstance(identity, str) and identity.endswith(MADE_HERE)


def has_made_id(item: Mapping[str, Any]) -> bool:
    """Return whether the id of an item has the form of the gateway's ids, which no vendor can look up.

    Another gateway, or a server such as vLLM, may have made it too: an id that the upstream has issued is recorded.
    """
    identity = item.get("id")
    return isinstance(identity, str) and len(identity) < 50 and _MADE_ID.fullmatch(identity) is not None


def is_unreadable(item: Mapping[str, Any]) -> bool:
    """Return whether only the gateway can read an item: it made the item's id, and the item has no other content."""
    return is_made_here(item) or (has_made_id(item) and not is_self_contained(item))


def list_issued(response: Mapping[str, Any], stored: bool) -> Iterator[tuple[str, str]]:
    """Yield kind and id of the objects that the upstream keeps of `response`.

    The response's own ``store`` takes precedence over `stored`.

    A response that is not stored leaves only containers, and items that the client can only send back by id.
    """
    reported = response.get("store")
    stored = reported if isinstance(reported, bool) else stored
    if stored and isinstance(response.get("id"), str):
        yield "response", response["id"]
    output = response.get("output")
    for item in output if isinstance(output, list) else ():
        if not isinstance(item, Mapping):
            continue
        if isinstance(item.get("id"), str) and (stored or not is_self_contained(item)):
            yield "item", item["id"]
        environment = item.get("environment")
        for holder in (item, environment):
            if isinstance(holder, Mapping) and isinstance(holder.get("container_id"), str):
                yield "container", holder["container_id"]
