"""The fields of ``POST /v1/moderations``.

Source: openai-python 3.52, types/moderation_create_params.py and moderation_multi_modal_input_param.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.fields import LINK, MODEL, PICTURE, UNKNOWN, Group, row

BASE: Final[dict[str, Any]] = {"model": MODEL, "input": "Hello"}
PARTS: Final[dict[str, Any]] = {"model": MODEL, "input": [{"type": "text", "text": "Hello"}]}

plain, parts = partial(row, BASE), partial(row, PARTS)


def _picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


GROUPS: Final = (
    Group(
        "What is judged",
        (
            plain("input", "mark-kill you", "a string", instead="Hello"),
            plain("input", ["Hello", "mark-kill you"], "several", instead="Hello"),
            parts("input.0.text", "mark-kill you", instead="Hello"),
            parts("input.1", {"type": "text", "text": "mark-kill you"}, "text"),
            parts("input.1", _picture(f"data:image/png;base64,{PICTURE}"), "image_url, data"),
            parts("input.1", _picture(LINK), "image_url, link"),
            parts(f"input.0.{UNKNOWN}", "mark-new"),
        ),
    ),
    Group("Beside it", (plain(UNKNOWN, "mark-new"),)),
)
