"""Removal of secrets from text. Independent of logs; pure.

`Scrubber` is for logs. `redact_answer` and `redact_error` are for data from an upstream to a caller: it must not
contain the target's key, even if the upstream repeats it. `mask_secret` adds a secret that a provider has fetched to
all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import quote

from tornado_gate.codec.secret_words import MASK, is_secret_name, is_secret_value, mask_logins
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import stages
from tornado_gate.telemetry.fetched_secrets import FETCHED
from tornado_gate.telemetry.spellings import compile_escape_patterns, decode_basic, list_spellings
from tornado_gate.types import BufferedBody, Target, UpstreamResponse

MESSAGE_CHARACTERS = 16_384
FIELD_CHARACTERS = 2_048
FIELD_ITEMS = 64
FIELD_DEPTH = 4
MANY_SECRETS = 2000
"""From this number of secrets on, the text is searched for prefixes instead of for each secret."""
SHORTEST_SECRET = 8
"""Shorter values are not masked: they would match ordinary words, and a key of that length is not secret anyway."""

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer)\s{1,4}[^\s\"',;]+"), rf"\1 {MASK}"),
    # A lower-case word before a space begins a message about the key, such as "api_key: the environment variable ...".
    (
        re.compile(
            r"(?i)\b((?:x-|x-goog-)?api[-_]?key[\"']?\s{0,4}[:=]\s{0,4}[\"']?)(?!(?<=: )(?-i:[a-z]{1,15}) )[^\s\"',;&]+"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"([?&](?:key|token|access_token)=)[^&\s\"'#]+"), rf"\1{MASK}"),
    (re.compile(r"\b([a-z]{1,20}-insecure-api-key\.)[^\s\"',;]+"), rf"\1{MASK}"),
    (re.compile(r"\b(sk-|tg-|xai-|gsk_|AIza)[A-Za-z0-9_\-]{8,}"), rf"\1{MASK}"),
)
_SUSPICIOUS = re.compile(r"bearer|key[\"'\s:=.]|token=|sk-|tg-|xai-|gsk_|aiza")
"""Every match of a pattern contains one of these in lower case; one search for them is cheaper than five patterns."""

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
    """A scrubber. It replaces known secrets, and texts that look like keys, with ``***``. Thread-safe.

    The known secrets come from `replace` and from providers that have fetched some. The cost is bounded:
    text is cut to a maximum length, structures to a depth and a number of items.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self._heads: frozenset[str] = frozenset()
        self._longest = 0
        self._given: frozenset[str] = frozenset()
        self._revision = 0
        self.replace(secrets)

    def replace(self, secrets: Iterable[str]) -> None:
        """Set the known secrets. Their spellings in URLs and in JSON are derived."""
        self._given = frozenset(map(str, secrets))
        self._add_fetched_secrets()

    def _add_fetched_secrets(self) -> None:
        self._revision = FETCHED.revision
        known: set[str] = set()
        for secret in self._given | FETCHED.list():
            if len(secret) >= SHORTEST_SECRET:
                known |= {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}
        # The order matters: other threads search at the same time, and find at least the secrets that both sets have in
        # common.
        self._heads = frozenset(secret[:SHORTEST_SECRET] for secret in known)
        self._longest = max(map(len, known), default=0)
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def _contains_secret(self, text: str) -> bool:
        """Return whether `text` contains a secret. If there are very many, only secrets whose prefix occurs in `text`
        are searched.
        """
        if self._revision != FETCHED.revision:
            self._add_fetched_secrets()
        if len(self._secrets) > MANY_SECRETS:
            windows = {text[at : at + SHORTEST_SECRET] for at in range(len(text) - SHORTEST_SECRET + 1)}
            if self._heads.isdisjoint(windows):
                return False
        return any(secret in text for secret in self._secrets)

    def scrub_text(self, text: str, longest: int = MESSAGE_CHARACTERS) -> str:
        """Return `text` without secrets, cut to `longest` characters."""
        if self._revision != FETCHED.revision:
            self._add_fetched_secrets()
        margin = self._longest
        cut = len(text) > longest + margin
        if cut:
            text = text[: longest + margin]
        if self._contains_secret(text):
            for secret in self._secrets:
                text = text.replace(secret, MASK)
        if _SUSPICIOUS.search(text.lower()) is not None:
            for pattern, mask in _PATTERNS:
                text = pattern.sub(mask, text)
        text = mask_logins(text)
        if cut:
            # A secret that was cut is at the end of the text, and is shorter than the margin.
            text = text[: len(text) - margin]
        return text[:longest] + "…" if cut or len(text) > longest else text

    def is_clean(self, text: str) -> bool:
        """Return whether `text`, of any length, would stay unchanged."""
        if _SUSPICIOUS.search(text.lower()) is not None or self._contains_secret(text):
            return False
        return "@" not in text or mask_logins(text) == text

    def scrub_value(self, value: Any, depth: int = FIELD_DEPTH) -> Any:
        """Return a field's value without secrets, converted to JSON types."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self.scrub_text(value, FIELD_CHARACTERS)
        if depth and isinstance(value, Mapping):
            return self.scrub_fields(value, depth - 1)
        if depth and isinstance(value, (list, tuple, set, frozenset)):
            return [self.scrub_value(item, depth - 1) for item in list(value)[:FIELD_ITEMS]]
        return self.scrub_text(str(value), FIELD_CHARACTERS)

    def scrub_fields(self, fields: Mapping[Any, Any], depth: int = FIELD_DEPTH) -> dict[str, Any]:
        """Return a mapping without secrets; values of fields with a secret name (such as api_key) are always masked."""
        clean: dict[str, Any] = {}
        for name, value in list(fields.items())[:FIELD_ITEMS]:
            shown = name if name in _OWN_FIELDS else self.scrub_text(str(name), FIELD_CHARACTERS)
            clean[shown] = MASK if value and shown.lower() in _SECRET_FIELDS else self.scrub_value(value, depth)
        return clean


# Data from an upstream

MASKED_CHARACTERS: Final = 16
"""The length from which secrets are masked in responses and headers. Shorter ones are often ordinary words (`none`,
`ollama`).
"""
SHORTEST_NAMED: Final = 4
"""Secrets of at least this length are masked in an error after a word such as `key`."""
LONG_PIECE_BYTES: Final = 4096
"""In a longer chunk, single bytes of a secret are searched for first, which takes a fraction of the time."""

_SLICE_BYTES: Final = 256 * 1024
"""The part of a large item that is searched for escapes in one call."""
_MASK_BYTES: Final = MASK.encode()
_MOST_MARKS: Final = 8
_CONTEXT_BYTES: Final = 6
"""Number of bytes that `_BEFORE` looks back."""
_BEFORE: Final = (
    rb"(?:(?<![A-Za-z0-9_.-])|(?<=[^A-Za-z0-9_-]\.)"
    rb"|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
)
"""Left boundary of a word: no character of the key alphabet, unless it ends an escape of JSON or of a URL."""
_AFTER: Final = rb"(?![A-Za-z0-9_-]|\.[A-Za-z0-9_-])"
"""Right boundary of a word. A full stop belongs to the word only if the word continues after it."""
_NAMED: Final = r"(?i:(?:bearer|key|token|secret|password)(?: (?:provided|given|sent|is|was))?[\s:=\"'`]{1,4})"
"""Text in an error before a key."""
_BINARY: Final = ("audio/", "image/", "video/")
_ESCAPE_START: Final = b"\\u00"
_ESCAPE_BYTES: Final = b"\\u0123456789abcdefABCDEF"
_ESCAPE_START_TEXT: Final = "\\u00"
_PARTIAL_ESCAPE: Final = re.compile(rb"\\(?:u(?:0(?:0[0-9A-Fa-f]?)?)?)?\Z")
"""The beginning of an escape of JSON at the end of a chunk."""
_ERROR: Final = re.compile(rb'"error"\s*:\s*[{"]|"type"\s*:\s*"error"|^event: error', re.MULTILINE)
"""An error inside a response or a stream, in every wire format. `"error": null` is part of ordinary responses."""


def redact_answer(target: Target, incoming: UpstreamResponse) -> UpstreamResponse:
    """Return `incoming` with `***` in place of the target's secrets in headers and body; `incoming` itself if it has
    none.

    In a body, a secret is masked if it is a whole word, even if it is split across two chunks. Audio, images and videos
    are not changed. The body becomes a `stages.Flow`, which carries steps that are added later: no iterator is added.
    """
    mask = make_mask(target)
    if mask is None or not mask.masks_answers:
        return incoming
    chunks, headers = incoming.chunks, mask.mask_headers(incoming.headers)
    if incoming.headers.get("content-type", "").startswith(_BINARY):
        pass
    elif isinstance(chunks, BufferedBody):
        data = mask.mask_body(chunks.data)
        chunks = chunks if data is chunks.data else BufferedBody(data)
    else:
        chunks = stages.add_step(chunks, _MaskChunks(mask))
    if chunks is incoming.chunks and headers is incoming.headers:
        return incoming
    return UpstreamResponse(
        chunks=chunks, status=incoming.status, headers=headers, context=incoming.context, provider=incoming.provider,
        reader=incoming.reader,
    )  # fmt: skip


def redact_error(target: Target, error: GateError) -> GateError:
    """Return `error` itself, with `***` in place of the target's secrets in every text that a caller receives.

    A secret of fewer than 16 characters is masked only after a word such as `key` or `Bearer`, and only if it does not consist
    of letters alone.
    """
    mask = make_mask(target)
    return error if mask is None else mask.mask_error(error)


def mask_secret(target: Target, secret: str) -> None:
    """Mask `secret`, which a provider has fetched or made for `target`, like the target's key: in responses, errors and
    logs.

    Call it before the secret is sent; repeated calls are allowed. The latest few of each key are kept, so renewed
    tokens are removed after a while.
    """
    FETCHED.add(target, secret)


def make_mask(target: Target) -> SecretMask | None:
    """Return the mask for the secrets of `target`; None without secrets."""
    headers = tuple(target.headers.items()) if target.headers else ()
    fetched = FETCHED.find_secrets(target) if FETCHED.revision else ()
    return _mask_of(target.account_keys or (target.api_key,), headers, fetched)


@lru_cache(maxsize=256)
def _mask_of(
    api_keys: tuple[str, ...], headers: tuple[tuple[str, str], ...], fetched: tuple[str, ...]
) -> SecretMask | None:
    pieces = (piece for api_key in api_keys for piece in (api_key, *api_key.split(":")))
    secrets = {piece for piece in (*pieces, *fetched) if len(piece) >= SHORTEST_NAMED}
    for name, value in headers:
        if is_secret_name(name) or is_secret_value(value):
            secrets |= {piece for piece in re.split(r"[\s;,=]+", value) if len(piece) >= SHORTEST_NAMED}
            secrets |= {piece for piece in decode_basic(value) if len(piece) >= SHORTEST_NAMED}
    return SecretMask(frozenset(secrets)) if secrets else None


class SecretMask:
    """A mask that replaces secrets with `***`: in whole bodies and single messages, in headers, in error messages."""

    __slots__ = (
        *("_anywhere", "_ends", "_escape", "_escapes", "_last_bytes", "_marked", "_named", "_texts", "_words"),
        "masks_answers",
    )

    def __init__(self, secrets: frozenset[str]) -> None:
        spellings = {
            spelling for secret in secrets if len(secret) >= MASKED_CHARACTERS for spelling in list_spellings(secret)
        }
        self._texts = tuple(sorted(spellings, key=lambda text: (-len(text), text)))
        self.masks_answers = bool(self._texts)  # a secret is long enough to be masked outside of errors
        needles = [text.encode() for text in self._texts]
        self._marked = tuple((needle, _find_rare_bytes(needle)) for needle in needles)
        needle = rb"(?:" + rb"|".join(map(re.escape, needles)) + rb")"
        self._anywhere = re.compile(needle)
        self._words = re.compile(_BEFORE + needle + _AFTER)
        self._escape, self._escapes = compile_escape_patterns(self._texts)
        self._ends = tuple(needle + b"." for needle in needles)
        self._last_bytes = frozenset(b"".join((*self._ends, _ESCAPE_BYTES)))
        self._named = _compile_short_pattern(secret for secret in secrets if len(secret) < MASKED_CHARACTERS)

    def mask_body(self, raw: bytes) -> bytes:
        """Return the complete body `raw` with its secrets masked; `raw` itself if it contains no secret."""
        plain = self.undo_escapes(raw)
        return self._choose_pattern(plain).sub(_MASK_BYTES, plain) if self.holds(plain) else raw

    def _choose_pattern(self, raw: bytes) -> re.Pattern[bytes]:
        """Return the pattern of the secrets in `raw`: whole words, but anywhere in an error."""
        return self._words if _ERROR.search(raw) is None else self._anywhere

    def undo_escapes(self, raw: bytes) -> bytes:
        r"""Return the JSON text `raw` with plain characters in place of escapes ``\u00XX`` of the characters of
        secrets. Its value is the same.

        Upstreams escape few characters, and most of these do not occur in keys. In that case `raw` itself is returned.
        """
        if b"\\" not in raw or raw.find(_ESCAPE_START) < 0 or self._escape.search(raw) is None:
            return raw
        return self._escapes.sub(lambda match: match[1] + bytes((int(match[2], 16),)), raw)

    def mask_text(self, text: str) -> str:
        """Mask a text as `mask_body` does."""
        if _ESCAPE_START_TEXT not in text and not any(secret in text for secret in self._texts):
            return text
        return self.mask_body(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def mask_headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return `headers` with secrets masked anywhere in a value; `headers` itself if they contain no secret."""
        values = "\n".join(headers.values())
        for secret in self._texts:
            if secret in values:
                return {name: self._mask_anywhere(value) for name, value in headers.items()}
        return headers

    def mask_error(self, error: GateError) -> GateError:
        """Return `error` itself, with secrets masked anywhere."""
        error.message, error.param = self._error_text(error.message), self._error_text(error.param)
        if (code := self._error_text(error.code)) != error.code:
            error.code = code
        error.headers = {name: self._error_text(value) for name, value in error.headers.items()}
        if isinstance(error, UpstreamError):
            error.hidden_text = self._error_text(error.hidden_text)
        error.args = (error.message,)
        return error

    def _error_text(self, text: str) -> str:
        text = self._mask_anywhere(text)
        return text if self._named is None else self._named.sub(rf"\1{MASK}", text)

    def _mask_anywhere(self, text: str) -> str:
        for secret in self._texts:
            text = text.replace(secret, MASK)
        return text

    def holds(self, raw: bytes) -> bool:
        """Return whether `raw` contains a secret, as a whole word or not."""
        long = len(raw) > LONG_PIECE_BYTES
        for needle, marks in self._marked:
            if long and _lacks_a_mark(raw, marks):
                continue
            if raw.find(needle) >= 0:
                return True
        return False

    def count_undecided(self, raw: bytes) -> int:
        """Return how many bytes at the end of `raw` may be a secret or its beginning; the next chunk decides."""
        if not raw or raw[-1] not in self._last_bytes:  # most chunks end with a line break
            return 0
        cut = 0
        if raw.find(b"\\", -5) >= 0 and (partial := _PARTIAL_ESCAPE.search(raw, len(raw) - 5)) is not None:
            cut = partial.end() - partial.start()
            raw = raw[:-cut]
        if not raw:
            return cut
        return cut + max(_measure_overlap(raw[-len(end) :], end) for end in self._ends)

    def mask_slice(self, raw: bytes, start: int, until: int) -> tuple[list[bytes], int]:
        """Mask each secret of `raw` that begins between `start` and `until`. Returns the pieces and the position where
        they end.
        """
        pieces: list[bytes] = []
        for match in self._choose_pattern(raw).finditer(raw, start):
            if match.start() >= until:
                break
            pieces += (raw[start : match.start()], _MASK_BYTES)
            start = match.end()
        end = max(start, until)
        pieces.append(raw[start:end])
        return pieces, end


def _compile_short_pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern for short secrets after a word such as `key`. Secrets of letters alone are words and are not
    masked.
    """
    kept = sorted((secret for secret in secrets if not secret.isalpha()), key=len, reverse=True)
    if not kept:
        return None
    return re.compile(rf"({_NAMED})(?:{'|'.join(map(re.escape, kept))})(?![A-Za-z0-9_-]|\.[A-Za-z0-9_-])")


def _find_rare_bytes(needle: bytes) -> tuple[bytes, ...]:
    """Return single bytes of a secret, rare ones in base64 and in numbers first."""
    rarest = sorted(set(needle), key=lambda mark: (chr(mark).isdigit(), chr(mark).isalpha(), mark))
    return tuple(bytes((mark,)) for mark in rarest[:_MOST_MARKS])


def _lacks_a_mark(raw: bytes, marks: tuple[bytes, ...]) -> bool:
    """Return whether one of `marks` is missing. Images and vectors mostly lack the hyphen, and a single byte is found
    quickly.
    """
    return any(raw.find(mark) < 0 for mark in marks)


def _measure_overlap(tail: bytes, needle: bytes) -> int:
    """Return the length of the longest prefix of `needle` that `tail` ends with."""
    start = tail.find(needle[:1])
    while start >= 0 and not needle.startswith(tail[start:]):
        start = tail.find(needle[:1], start + 1)
    return len(tail) - start if start >= 0 else 0


class _MaskChunks(stages.Step[bytes, bytes]):
    """A step that masks secrets in the chunks of a body. A chunk's end that may begin a secret is held back until the
    next chunk.
    """

    __slots__ = ("_context", "_held", "_mask")

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        self._held = b""
        self._context = b""  # the bytes before `_held`, unmasked

    def take(self, items: list[bytes], out: list[bytes]) -> stages.Large | None:
        for index, item in enumerate(items):
            if len(item) > stages.LARGE_BYTES and item.find(_ESCAPE_START) >= 0:
                return stages.Large(items[index + 1 :], partial(self._take_slices, item))
            self._take_chunk(item, out)
        return None

    def _take_slices(self, item: bytes, out: list[bytes]) -> None:
        """Take a large item with escapes, in a thread: the search for them takes 10 ms for each megabyte."""
        for start in range(0, len(item), _SLICE_BYTES):
            self._take_chunk(item[start : start + _SLICE_BYTES], out)

    def _take_chunk(self, item: bytes, out: list[bytes]) -> None:
        chunk = self._held + item if self._held else item
        if b"\\" in chunk:  # a single byte is found quickly
            chunk = self._mask.undo_escapes(chunk)
        undecided = self._mask.count_undecided(chunk)
        if (undecided or self._held) and not self._mask.holds(chunk):
            end = len(chunk) - undecided
            self._held = chunk[end:]
            self._context = (self._context + chunk[max(0, end - _CONTEXT_BYTES) : end])[-_CONTEXT_BYTES:]
            if end:
                out.append(chunk[:end])
        elif undecided or self._held or self._mask.holds(chunk):
            if ready := self._mask_until(chunk, len(chunk) - undecided):
                out.append(ready)
        else:
            enough = len(chunk) >= _CONTEXT_BYTES
            self._context = (chunk if enough else self._context + chunk)[-_CONTEXT_BYTES:]
            out.append(item)

    def end(self, out: list[bytes]) -> None:
        if self._held:
            out.append(self._mask_until(self._held, len(self._held)))

    def fail(self, error: GateError) -> GateError:
        return self._mask.mask_error(error)

    def _mask_until(self, chunk: bytes, until: int) -> bytes:
        """Return `chunk` up to `until`, masked, and hold back the remaining bytes."""
        before = self._context
        pieces, end = self._mask.mask_slice(before + chunk, len(before), len(before) + until)
        self._held = chunk[end - len(before) :]
        self._context = (before + chunk)[:end][-_CONTEXT_BYTES:]
        return b"".join(pieces)
