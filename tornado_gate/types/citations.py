"""The sources of a text that a model wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.types.value import Value


class Citation(Value, frozen=True, kw_only=True):
    """One source of a passage of a text part.

    The passage is the text from `start` to `end` (exclusive), in characters (Unicode code points) of the part's own text; None:
    the whole part. The source is a web page (`url`), an uploaded file (`file_id`) or another document, which has at most a
    `title`; `quote` is the cited text of the source. `value` is the citation as the upstream sent it in `wire_format`: a renderer
    of that format writes it back unchanged.
    """

    start: int | None = None
    end: int | None = None
    url: str = ""
    title: str = ""
    quote: str = ""
    file_id: str = ""
    wire_format: str = ""
    value: Mapping[str, Any] | None = None
