"""Replaces file URLs in a request by file data, where the upstream does not accept URLs; files of the account are refused."""

from __future__ import annotations

from collections.abc import Callable

from tornado_gate.types import Audio, Call, ChatRequest, File, Image, Link, ObjectReference
from tornado_gate.wire import inline_links as shared
from tornado_gate.wire.inline_links import MAX_LINKS
from tornado_gate_gemini.wire.generate import is_uploaded_file

__all__ = ["MAX_LINKS", "inline_links"]


async def inline_links(call: Call, request: ChatRequest, needs: Callable[[Link], bool]) -> ChatRequest:
    """`request` with each http(s) URL for which `needs` is true replaced by its data.

    Raises InvalidField as `tornado_gate.wire.inline_links`; NotFound for the address of a file in the provider's account, which
    the vendor would read with the account's rights, unless conf shares such files.
    """
    if not call.target.shares("file"):
        _refuse_uploaded_files(request)
    return await shared.inline_links(call, request, needs)


def _refuse_uploaded_files(request: ChatRequest) -> None:
    for number, message in enumerate(request.messages):
        for index, part in enumerate(message.parts):
            if (
                isinstance(part, Image | Audio | File)
                and isinstance(part.source, Link)
                and is_uploaded_file(part.source.url)
            ):
                raise ObjectReference(kind="file", id=part.source.url, param=request.path(number, index)).not_found()
