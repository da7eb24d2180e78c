"""Pages of the vendor's lists of items.

Source: openai-python 3.52, types/responses/input_item_list_params.py and types/conversations/item_list_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField

_MAX_LIMIT: Final = 100
_DEFAULT_LIMIT: Final = 20


def render_page(items: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return a page: at most `limit` items after the id `after`, the newest first unless `order` is ``asc``."""
    limit = query.get("limit", str(_DEFAULT_LIMIT))
    if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit[:9]) <= _MAX_LIMIT:
        raise InvalidField("limit", f"'limit' must be an integer from 1 to {_MAX_LIMIT}, not '{limit[:50]}'.")
    ordered = items if query.get("order") == "asc" else items[::-1]
    ids = [item["id"] for item in ordered]
    after = query.get("after")
    first = ids.index(after) + 1 if after in ids else 0
    page = ordered[first : first + int(limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": first + len(page) < len(items),
    }
