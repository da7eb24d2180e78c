"""Moderation: texts judged by a list of words, pictures not at all. See `media.moderation` for what that is worth."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from tornado_gate.types import Call, ModerationRequest, ModerationResult, Part, StreamEvent, Text, Verdict
from tornado_gate_local.losses import select_unsupported
from tornado_gate_local.media import moderation
from tornado_gate_local.operations.work import OperationWork, drop_unknown, make_path


@dataclass(frozen=True, slots=True)
class ModerationWork(OperationWork):
    call: Call
    request: ModerationRequest

    async def events(self) -> AsyncIterator[StreamEvent]:
        judged = await moderation.moderate_in_worker([join_texts(parts) for parts in self.request.inputs])
        yield ModerationResult(
            verdicts=tuple(map(_make_verdict, self.request.inputs, judged)),
            model=self.call.target.upstream_model,
            id=f"modr-{secrets.token_hex(12)}",
        )


def prepare(call: Call, request: ModerationRequest) -> ModerationWork:
    """Reports by its place every picture, about which a verdict says nothing, and every unknown member of a text."""
    for lost in _iterate_unread(request):
        call.drop_field(lost)
    drop_unknown(call, request)
    return ModerationWork(call, request)


def join_texts(parts: tuple[Part, ...]) -> str:
    """The texts of an input, each on a line of its own."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _iterate_unread(request: ModerationRequest) -> Iterator[str]:
    """Several parts are one input's in the wire formats that have them; else each input has one."""
    several = len(request.inputs) > 1
    for number, parts in enumerate(request.inputs):
        for index, part in enumerate(parts):
            path = make_path(request, "inputs", number if several else index, several or len(parts) > 1)
            if isinstance(part, Text):
                yield from (f"{path}.{name}" for name in select_unsupported(part.extra))
            else:
                yield path


def _make_verdict(parts: tuple[Part, ...], judged: moderation.TextVerdict) -> Verdict:
    """In the vocabulary; `applied` is empty where there was no text to judge."""
    kinds = ["text"] if any(isinstance(part, Text) for part in parts) else []
    return Verdict(
        flagged=bool(judged.flagged),
        categories={name: name in judged.flagged for name in judged.scores},
        scores=judged.scores,
        applied=dict.fromkeys(judged.scores, kinds),
    )
