"""What does not show in the source of a pattern: bounds of its input, texts that are not foreign, what a function compiles.

Every pattern that is not named here is tested as if anybody wrote its text, with 64 KiB. A name ends with that of the variable or
function, and stands here only if the pattern needs it: a test fails for a name that no pattern has.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Any, Final

from tornado_gate.targets import routing
from tornado_gate.telemetry import redaction, spellings
from tornado_gate_redact import phones

BOUNDED: Final[dict[str, tuple[int, str]]] = {
    "tornado_gate/codec/media_types.py:_SIGNATURES": (512, "the first SNIFFED_BYTES of a file"),
    "local/tornado_gate_local/phrases.py:_ECHO": (5000, "searched up to SAMPLE_CHARACTERS"),
    "local/tornado_gate_local/phrases.py:_TAIL": (100, "the last 100 characters of a sentence"),
    "local/tornado_gate_local/words.py:_SUM": (5001, "a sample of a text"),
    "local/tornado_gate_local/words.py:_OPERATOR": (
        1000,
        "a sum: 11 terms of 27 characters, 10 signs and 20 gaps of 20 spaces",
    ),
    "local/tornado_gate_local/hints.py:_FORMATS": (5001, "a sample of a text"),
    "redact/tornado_gate_redact/phones.py:_read_region": (17, "the digits of a candidate"),
}
"""Pattern -> the longest text that it gets, and why it gets no longer one."""

TRUSTED: Final[dict[str, str]] = {
    "tornado_gate/config/environment.py:_REFERENCE": "values of the operator's conf",
    "tornado_gate/ledger/default_prices.py:_matches_clause": "the installed list of prices, in a process of its own",
    "tornado_gate/ledger/default_prices.py:find_provider": "patterns of the installed list of prices; base URLs of conf",
    "tornado_gate/server/openapi/sections.py:_find_base_url": "samples that the gateway itself has written",
    "tornado_gate/cli/plugin_new.py:_rename_texts": "the templates of plugins",
    "tornado_gate/server/console/languages/template_text.py:_EXPRESSION": "the templates of the console",
    "tornado_gate/server/console/languages/template_text.py:_TOKENS": "the templates of the console",
}
"""Pattern -> whose text it reads. These may be superlinear."""

METHODS: Final[dict[str, str]] = {
    "tornado_gate/codec/json_edit.py:_ESCAPED_LETTER": "search",
    "tornado_gate/codec/media_types.py:_SIGNATURES": "match",
    "tornado_gate/server/admin/routing.py:AdminTable.__init__": "fullmatch",
    "tornado_gate/server/console/routes.py:_ROUTES": "fullmatch",
    "tornado_gate/server/console/words.py:_BROWSERS": "search",
    "tornado_gate/telemetry/redaction.py:_PATTERNS": "sub",
    "local/tornado_gate_local/hints.py:_FORMATS": "findall",
    "local/tornado_gate_local/word_list.py:_COMPILED": "finditer",
    "demo-media/tornado_gate_demo_media/retouch.py:EFFECTS": "search",
    "redact/tornado_gate_redact/checks.py:_CARDS": "match",
    "redact/tornado_gate_redact/detectors.py:_SECRET_PATTERNS": "finditer",
}
"""The method of patterns that the code does not call by their name. Others without a call are tried with all methods."""

SECRET: Final = "sk-0123456789abcdefghij"
ROUTES: Final = ("/v1/engines/{model}/embeddings", "/v1/{prefix}/videos/{id}", "/v1beta/models/{model}:generateContent")


def _compile_border() -> list[re.Pattern[Any]]:
    boundaries = (b"x", b"-" * 70, b"ab" * 35)
    return [re.compile(re.escape(b"\r\n--" + boundary) + rb"(?:\r\n|--)") for boundary in boundaries]


def _compile_secrets() -> list[re.Pattern[Any]]:
    mask = redaction.SecretMask(frozenset({SECRET, "aaaaaaaaaaaaaaaaaaaaaaaa"}))
    return [mask._anywhere, mask._words]


def _compile_short_secrets() -> list[re.Pattern[Any]]:
    pattern = redaction._compile_short_pattern(["abcdefg1", "aaaaaaa1"])
    assert pattern is not None
    return [pattern]


COMPILED: Final[dict[str, tuple[str, Callable[[], list[re.Pattern[Any]]]]]] = {
    "local/tornado_gate_local/words.py:calculate": ("match", lambda: [re.compile(r"-?\d{1,15}(?:\.\d{1,10})?")]),
    "redact/tornado_gate_redact/marks.py:make_pattern": (
        "finditer",
        lambda: [re.compile(r"\[[A-Z][A-Z0-9_]{0,29}_[0-9]{1,9}\]"), re.compile(r"[A-Z][A-Z0-9_]{0,29}[0-9]{1,9}")],
    ),
    "redact/tornado_gate_redact/phones.py:_read_region": (
        "fullmatch",
        lambda: [phones._read_region(region).form for region in ("US", "DE", "AR", "MX")],
    ),
    "tornado_gate/codec/form_parser.py:FormParser.__init__": ("search", _compile_border),
    "tornado_gate/targets/routing.py:_compile_pattern": (
        "fullmatch",
        lambda: [
            *(routing._compile_pattern(path) for path in ROUTES),
            routing._compile_pattern("/v1/videos/{id}", ("/v1/videos/{id}/content", "/v1/videos/{id}/parts/{part}")),
        ],
    ),
    "tornado_gate/telemetry/redaction.py:SecretMask.__init__": ("finditer", _compile_secrets),
    "tornado_gate/telemetry/redaction.py:_compile_short_pattern": ("sub", _compile_short_secrets),
    "tornado_gate/telemetry/spellings.py:compile_escape_patterns": (
        "sub",
        lambda: list(spellings.compile_escape_patterns([SECRET])),
    ),
    "tornado_gate/wire/model_table.py:ModelTable.__init__": (
        "match",
        lambda: [re.compile("|".join(map(fnmatch.translate, ("*gpt-*mini*", "o[134]*"))), re.IGNORECASE)],
    ),
    "tornado_gate/wire/tool_names.py:_compile_rule": (
        "fullmatch",
        lambda: [re.compile(r"(?![^A-Za-z_])[A-Za-z0-9_\-]{1,64}")],
    ),
    "tornado_gate/wire/tool_names.py:_make_accepted_name": ("sub", lambda: [re.compile(r"[^A-Za-z0-9_\-]")]),
}
"""Functions that compile patterns: the method that is called, and examples with the hardest values they may be given."""

TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "tornado_gate/codec/form_parser.py:FormParser.__init__": ("\r\n--" + "-" * 69, "\r\n--" + "ab" * 35 + "\r"),
    "tornado_gate/telemetry/redaction.py:SecretMask.__init__": (SECRET[:-1], SECRET + "x", "a" * 23 + "."),
    "tornado_gate/telemetry/redaction.py:_compile_short_pattern": ("key: ", "key is====", "key aaaaaaa"),
    "tornado_gate/targets/routing.py:_compile_pattern": (
        *("/v1beta/models/", ":generateContent", "/v1/a/videos/", "/"),
        *("/v1/videos/", "/content", "/parts/", "/v1/videos/a/parts/"),
    ),
    "tornado_gate/wire/model_table.py:ModelTable.__init__": ("gpt-", "mini", "gpt-mini", "o1"),
    "redact/tornado_gate_redact/detectors.py:_JWT": ("eyJ", "eyJaaaaaaaaaa.eyJ", "eyJ" + "a" * 400 + ".eyJ"),
}
"""Attacks by hand, which are repeated up to the length, besides those that are derived from the pattern."""
