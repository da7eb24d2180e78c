"""Texts of responses and of the events of streams: blocks are those of requests (`content`).

Source: anthropic-python 2.11, types/beta/.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.codec.fields import make_shape
from tornado_gate.types.text_maps import (
    DATA,
    OTHER,
    TEXT,
    Events,
    JsonText,
    Object,
    Shape,
    Text,
    TextMap,
    at_place,
    words,
)
from tornado_gate.wire.text_shapes import ERROR, USAGE
from tornado_gate_anthropic.fields.content import BLOCK, BLOCK_KINDS, CITATION, list_block_members
from tornado_gate_anthropic.fields.request import REQUEST

_BLOCK: Final = make_shape(BLOCK)
_STREAMED: Final[dict[str, Shape]] = {"text": Text(delta=True), "thinking": Text(kind="reasoning", delta=True)}
_OPENING_BLOCK: Final = Object(
    members={**list_block_members(), **_STREAMED},
    others=TEXT,
    kinds={"type": BLOCK_KINDS},
    kind="assistant",
    place="content.{index}",
)
_MESSAGE_MEMBERS: Final[dict[str, Shape]] = {
    **words("id", "type", "role", "model", "stop_reason"),
    "content": _BLOCK,
    "usage": USAGE,
    "error": ERROR,
    "container": Object(kind="other", members=words("id", "expires_at")),
    "stop_details": Object(
        kind="other", members={**words("type", "category", "recommended_model"), "fallback_credit_token": DATA}
    ),
    "context_management": Object(kind="other", members={"applied_edits": Object(kind="other", members=words("type"))}),
}
_MESSAGE: Final = Object(kind="assistant", members=_MESSAGE_MEMBERS, others=OTHER)
_DELTA: Final = Object(
    kind="assistant",
    place="content.{index}",
    members={
        **words("type"),
        **_STREAMED,
        "partial_json": JsonText(kind="tool_call", delta=True, place="input"),
        "content": Text(delta=True),
        "citation": CITATION,
        **dict.fromkeys(("signature", "encrypted_content"), DATA),
    },
    ends={"signature": ("thinking",), "encrypted_content": ("content",)},
)
_EVENT: Final = words("type")
EVENTS: Final = Events(
    shapes={
        "message_start": Object(kind="other", members={**_EVENT, "message": at_place(_MESSAGE, "/")}),
        "content_block_start": Object(kind="other", members={**_EVENT, "content_block": _OPENING_BLOCK}),
        "content_block_delta": Object(kind="other", members={**_EVENT, "delta": _DELTA}),
        "content_block_stop": Object(kind="other", members=_EVENT, place="content.{index}", ends={"index": ("",)}),
        "message_delta": Object(
            kind="other",
            members={**_EVENT, **_MESSAGE_MEMBERS, "delta": at_place(_MESSAGE, "/")},
            ends={"delta": ("/",)},
        ),
    },
    other=Object(kind="other", members={**_EVENT, "error": ERROR}, ends={"error": ("/",)}),
)

MESSAGES: Final = TextMap(request=REQUEST, response=_MESSAGE, event=EVENTS)
COUNT: Final = TextMap(request=REQUEST)
