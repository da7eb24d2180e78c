"""Moderation: a word list checks texts, images are not checked. See `tornado_gate_local.word_list` for the limits."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, ModerationRequest, ModerationResult, Part, StreamEvent, Text, Verdict
from tornado_gate_local import word_list
from tornado_gate_local.losses import select_unsupported
from tornado_gate_local.operations.work import OperationWork, drop_unknown, make_path


@dataclass(frozen=True, slots=True)
class ModerationWork(OperationWork):
    call: Call
    request: ModerationRequest

    async def events(self) -> AsyncIterator[StreamEvent]:
        judged = await word_list.moderate_in_worker([join_texts(parts) for parts in self.request.inputs])
        yield ModerationResult(
            verdicts=tuple(map(_make_verdict, self.request.inputs, judged)),
            model=self.call.target.upstream_model,
            id=f"modr-{secrets.token_hex(12)}",
        )


def prepare(call: Call, request: ModerationRequest) -> ModerationWork:
    """Raises InvalidField for more text than a worker reads in time.

    Reports as dropped, by its path, every image (a verdict does not cover it) and every unknown member of a text.
    """
    size = sum(len(part.text) for parts in request.inputs for part in parts if isinstance(part, Text))
    if size > word_list.MAX_CHARACTERS:
        message = (
            f"This model reads at most {word_list.MAX_CHARACTERS:,} characters of a request; this one has {size:,}. "
            "Divide it into several requests."
        )
        raise InvalidField(request.field_name("inputs"), message, code="string_above_max_length")
    for lost in _iterate_unread(request):
        call.drop_field(lost)
    drop_unknown(call, request)
    return ModerationWork(call, request)


def join_texts(parts: tuple[Part, ...]) -> str:
    """The texts of an input, one a line."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _iterate_unread(request: ModerationRequest) -> Iterator[str]:
    """Paths of what is not checked. In a wire format either the only input has several parts, or each input has one."""
    several = len(request.inputs) > 1
    for number, parts in enumerate(request.inputs):
        for index, part in enumerate(parts):
            path = make_path(request, "inputs", number if several else index, several or len(parts) > 1)
            if isinstance(part, Text):
                yield from (f"{path}.{name}" for name in select_unsupported(part.extra))
            else:
                yield path


def _make_verdict(parts: tuple[Part, ...], judged: word_list.TextVerdict) -> Verdict:
    """The common type of a verdict; `applied` is empty for an input without text."""
    kinds = ["text"] if any(isinstance(part, Text) for part in parts) else []
    return Verdict(
        flagged=bool(judged.flagged),
        categories={name: name in judged.flagged for name in judged.scores},
        scores=judged.scores,
        applied=dict.fromkeys(judged.scores, kinds),
    )
