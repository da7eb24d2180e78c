"""Texts of requests and responses for guards, and the decisions of guards about them.

A guard (`hookspecs.GuardSpec`) reads every text of a request or a response of every wire format as a `GuardedText`. It returns
None, a `Replace` or a `Block`. A format declares the texts of its bodies and stream events (`types/text_maps.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from re import Pattern
from typing import Literal, NamedTuple

from tornado_gate.types.value import Value

TextKind = Literal["system", "user", "assistant", "reasoning", "tool_call", "tool_result", "name", "other"]
"""The kinds of texts: instructions, a prompt or other input of the caller, the model's answer, its thinking, arguments or a
result of a tool.

A name or an id in a request (``call_1``, the name of a tool or of a property) has its own kind. So has any other text, such as a
description of a tool or a member that the format does not define. Names are fixed: see `GuardedText.is_fixed`.
"""


class GuardedText(Value, frozen=True, kw_only=True):
    """One `text` of a request or a response, of this `kind`.

    `path` is its path in the caller's body (``messages.0.content``). A text of a stream is seen in windows: the first `sent`
    characters of `text` have been sent to the caller, are shown for context and cannot be replaced. `is_complete`: no more text
    follows; otherwise the end of this window is seen again. `is_fixed`: the text cannot be replaced, for example because an
    upstream has signed it, or because a name has the same spelling elsewhere; replacing it blocks the request.
    """

    kind: TextKind
    path: str
    text: str
    sent: int = 0
    is_complete: bool = True
    is_fixed: bool = False


class Span(NamedTuple):
    """The characters `start` to `end` of the text number `text` in the list that the guard was given, and their `replacement`."""

    text: int
    start: int
    end: int
    replacement: str


class Replace(Value, frozen=True):
    """A guard's decision: the request or the response continues with these `spans` replaced.

    Spans of one text must not overlap.
    """

    spans: tuple[Span, ...]


class Block(Value, frozen=True, kw_only=True):
    """A guard's decision: the request is refused, or the response ends, with an error of this `message`, `status` and `code`."""

    message: str
    status: int = 400
    code: str = "blocked_by_guard"


Decision = Replace | Block | None
"""None: allow."""


class GuardOptions(Value, frozen=True, kw_only=True):
    """The options of a guard; the result of the hook `guard_options`.

    `lookahead` is the longest text, in characters, that the guard must see as a whole to recognise it (an e-mail address: 254).
    The last `lookahead` characters of a stream are held back until more follow. `reads` are the sides that it reviews.
    """

    lookahead: int = 256
    reads: frozenset[Literal["request", "response"]] = frozenset({"request", "response"})


def find_spans(texts: Iterable[GuardedText], pattern: Pattern[str], replace: Callable[[str], str]) -> list[Span]:
    """Return the spans of all matches of `pattern` that have not been sent, each replaced by ``replace(match)``.

    A match does not begin in characters that were sent, but the pattern may look at them: ``\\b`` and ``(?<=…)`` work.
    """
    return [
        Span(number, match.start(), match.end(), replace(match.group()))
        for number, text in enumerate(texts)
        for match in pattern.finditer(text.text, text.sent)
    ]
