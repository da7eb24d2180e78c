"""The example of docs/plugins/text-maps.md works as the page says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import orjson

from tornado_gate import sse
from tornado_gate.guards.text_streams import guard_stream
from tornado_gate.guards.text_views import view_request
from tornado_gate.testing import iterate
from tornado_gate.types.text_maps import TextMap
from tornado_gate.types.texts import GuardedText, Span, find_spans

PAGE = Path(__file__).parents[3] / "docs" / "plugins" / "text-maps.md"


def read_example() -> TextMap:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code[0], names)  # the page's own example
    found = names["TEXTS"]
    assert isinstance(found, TextMap)
    return found


def test_the_example_finds_the_texts_of_a_request() -> None:
    body = {"model": "m", "turns": [{"who": "rules", "says": "Be kind."}, {"who": "user", "says": "Hi"}], "new": "x"}
    texts = view_request(read_example(), body).texts
    assert [(text.kind, text.text) for text in texts if text.kind != "name"] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("other", "x"),
    ]


def test_the_example_guards_a_stream_and_its_repetition() -> None:
    async def review(texts: list[GuardedText]) -> list[Span]:
        return find_spans(texts, re.compile("llo"), lambda _: "y")

    async def run() -> bytes:
        events = [{"id": "a1", "word": "Hel"}, {"id": "a1", "word": "lo"}, {"id": "a1", "end": {"all": "Hello"}}]
        chunks = iterate(sse.render_json(event) for event in events)
        return b"".join([chunk async for chunk in guard_stream(read_example(), chunks, 3, review, lambda unread: None)])

    values = [orjson.loads(frame[6:]) for frame in sse.split(asyncio.run(run()))]
    assert "".join(value.get("word", "") for value in values) == values[-1]["end"]["all"] == "Hey"
