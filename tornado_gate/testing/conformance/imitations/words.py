"""The text of all imitations. The words have characters of two, three and four bytes, which odd chunk borders cut."""

from __future__ import annotations

import base64
from typing import Any, Final

from tornado_gate.testing.conformance.examples import PICTURE, make_silence

WORDS: Final = ("Grüße ", "aus ", "dem ", "Prüfstand ", "漢字 ", "☕ ", "🙂 ", "Ende.")
TEXT: Final = "".join(WORDS)
TOOL_INPUT: Final = '{"city": "Zürich"}'
TOOL_PIECES: Final = ('{"ci', 'ty": "Zü', 'rich"}')
INPUT_TOKENS: Final = 7
OUTPUT_TOKENS: Final = 9
VECTOR: Final = (0.25, -0.5, 0.75)
PICTURE_TEXT: Final = base64.b64encode(PICTURE).decode()
SOUND: Final = make_silence()
PCM: Final = SOUND[44:]
VIDEO: Final = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 16


def name_of_tool(tools: Any) -> str:
    """Return the name of the first function among `tools` of OpenAI's or Anthropic's shape."""
    first = tools[0]
    return str((first.get("function") or first).get("name", "tool"))
