"""The kinds of requests, and their shares of the traffic."""

from __future__ import annotations

import random

from bench.soak.bounded import PACED, SESSION, hold_sessions, send_paced
from bench.soak.callers import Act
from bench.soak.media import embed, film, paint, speak, talk
from bench.soak.pages import read_page, send_bad
from bench.soak.site import BARE, FORMATS, SMART, STEADY
from bench.soak.texts import leave_stream, leave_whole, read_slowly, read_stream, read_text, use_sdk


class Plan:
    """What a kind of callers does, at which models, and its share of the traffic."""

    def __init__(self, weight: int, act: Act, *models: str) -> None:
        self.weight = weight
        self.act = act
        self._models = models

    def choose_model(self, chosen: random.Random) -> str:
        return chosen.choice(self._models) if self._models else ""


_TEXT = tuple(f"{kind}-{form}" for kind in (STEADY, SMART, BARE) for form in FORMATS)
_OPENAI = tuple(f"{kind}-o" for kind in (STEADY, SMART, BARE))
KINDS = {
    "SDK": Plan(10, use_sdk, *_TEXT),
    "chat": Plan(25, read_text, *_TEXT),
    "stream": Plan(25, read_stream, *_TEXT),
    "slow reader": Plan(2, read_slowly, *_TEXT),
    "leaves a stream": Plan(4, leave_stream, *_TEXT),
    "leaves before": Plan(3, leave_whole, *_TEXT),
    "embeddings": Plan(8, embed, *_OPENAI),
    "image": Plan(4, paint, *_OPENAI),
    "speech": Plan(4, speak, *_OPENAI),
    "video": Plan(2, film, "film"),
    "realtime": Plan(4, talk, "voice"),
    "page": Plan(8, read_page),
    PACED: Plan(2, send_paced, f"{STEADY}-o"),
    SESSION: Plan(1, hold_sessions, "voice"),
    "bad body": Plan(6, send_bad),
}
