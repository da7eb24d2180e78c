"""Text without secrets. Knows nothing of logs; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

MESSAGE_CHARACTERS = 16_384
FIELD_CHARACTERS = 2_048
FIELD_ITEMS = 64
FIELD_DEPTH = 4
MANY_SECRETS = 2000
"""From here on looking at every few characters of a text is quicker than looking for each secret in it."""
SHORTEST_SECRET = 8
"""Anything shorter would blot out ordinary words; a key of that length protects nothing anyway."""

MASK = "***"

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer)\s{1,4}[^\s\"',;]+"), rf"\1 {MASK}"),
    (re.compile(r"(?i)\b((?:x-|x-goog-)?api[-_]?key[\"']?\s{0,4}[:=]\s{0,4}[\"']?)[^\s\"',;&]+"), rf"\1{MASK}"),
    (re.compile(r"([?&](?:key|token|access_token)=)[^&\s\"'#]+"), rf"\1{MASK}"),
    (re.compile(r"\b([a-z]{1,20}-insecure-api-key\.)[^\s\"',;]+"), rf"\1{MASK}"),
    (re.compile(r"\b(sk-|tg-|xai-|gsk_|AIza)[A-Za-z0-9_\-]{8,}"), rf"\1{MASK}"),
)
_SUSPECT = re.compile(r"bearer|key[\"'\s:=.]|token=|sk-|tg-|xai-|gsk_|aiza")
"""Whatever a pattern matches holds one of these in lower case. Nearly no text does, and one search is cheaper than five."""

_SECRET_FIELDS = frozenset(
    ("authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api_key", "key", "password", "cookie")
)
_OWN_FIELDS = frozenset(
    (
        *("method", "path", "status", "milliseconds", "request_id", "caller", "model", "provider"),
        *("bytes_out", "attempts", "input_tokens", "output_tokens"),
    )
)


class Scrubber:
    """Puts ``***`` in the place of known secrets and of whatever looks like a key. May be called from any thread.

    Its cost is bounded: text is cut to a given length, structures to a depth and a number of items.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self._heads: frozenset[str] = frozenset()
        self._longest = 0
        self.replace(secrets)

    def replace(self, secrets: Iterable[str]) -> None:
        """Know these values and no others. Their spellings inside an address and inside JSON are known too."""
        known: set[str] = set()
        for secret in map(str, secrets):
            if len(secret) >= SHORTEST_SECRET:
                known |= {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}
        self._secrets = tuple(sorted(known, key=len, reverse=True))
        self._heads = frozenset(secret[:SHORTEST_SECRET] for secret in self._secrets)
        self._longest = max(map(len, self._secrets), default=0)

    def _holds_a_secret(self, text: str) -> bool:
        """Of very many secrets only those are looked for whose beginnings stand somewhere in `text`."""
        if len(self._secrets) > MANY_SECRETS:
            windows = {text[at : at + SHORTEST_SECRET] for at in range(len(text) - SHORTEST_SECRET + 1)}
            if self._heads.isdisjoint(windows):
                return False
        return any(secret in text for secret in self._secrets)

    def text(self, text: str, longest: int = MESSAGE_CHARACTERS) -> str:
        """`text` without secrets, of at most `longest` characters."""
        margin = self._longest
        cut = len(text) > longest + margin
        if cut:
            text = text[: longest + margin]
        if self._holds_a_secret(text):
            for secret in self._secrets:
                text = text.replace(secret, MASK)
        if _SUSPECT.search(text.lower()) is not None:
            for pattern, mask in _PATTERNS:
                text = pattern.sub(mask, text)
        if cut:
            # A secret that the cut went through ends the text, and is shorter than the margin.
            text = text[: len(text) - margin]
        return text[:longest] + "…" if cut or len(text) > longest else text

    def harmless(self, text: str) -> bool:
        """Whether `text`, of any length, would stay as it is."""
        return _SUSPECT.search(text.lower()) is None and not self._holds_a_secret(text)

    def value(self, value: Any, depth: int = FIELD_DEPTH) -> Any:
        """A field's value without secrets, made of what JSON knows."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self.text(value, FIELD_CHARACTERS)
        if depth and isinstance(value, Mapping):
            return self.fields(value, depth - 1)
        if depth and isinstance(value, (list, tuple, set, frozenset)):
            return [self.value(item, depth - 1) for item in list(value)[:FIELD_ITEMS]]
        return self.text(str(value), FIELD_CHARACTERS)

    def fields(self, fields: Mapping[Any, Any], depth: int = FIELD_DEPTH) -> dict[str, Any]:
        """A mapping without secrets; a value whose very name says that it is one is masked whatever it looks like."""
        clean: dict[str, Any] = {}
        for name, value in list(fields.items())[:FIELD_ITEMS]:
            shown = name if name in _OWN_FIELDS else self.text(str(name), FIELD_CHARACTERS)
            clean[shown] = MASK if value and shown.lower() in _SECRET_FIELDS else self.value(value, depth)
        return clean
