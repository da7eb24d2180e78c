"""/admin/v1/tapes: recordings of requests on the wire. Their content is personal data, so that reading one is audited."""

from __future__ import annotations

import asyncio

from tornado_gate.accounts import audit
from tornado_gate.errors import NotFound
from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Deleted, Page, TextAnswer
from tornado_gate.server.admin.scope import ADMINISTRATION
from tornado_gate.tapes.store import TapeInfo

_TAG = "admin: tapes"


async def list_tapes(request: AdminRequest) -> Page[TapeInfo]:
    tapes = tuple(await asyncio.to_thread(request.services.tapes.store.list_tapes))
    return Page(data=tapes, total=len(tapes))


async def get_tape(request: AdminRequest) -> TextAnswer:
    store = request.services.tapes.store
    if await asyncio.to_thread(store.find_path, request.id) is None:
        raise _make_unknown_error()
    await request.run(_record, request, "tape.read")
    data = await asyncio.to_thread(store.read, request.id)
    if data is None:
        raise _make_unknown_error()  # deleted in the meantime
    return TextAnswer(
        text=data.decode("utf-8", "replace"), media_type="application/jsonl", file_name=f"{request.id}.jsonl"
    )


async def delete_tape(request: AdminRequest) -> Deleted:
    if not await asyncio.to_thread(request.services.tapes.store.delete, request.id):
        raise _make_unknown_error()
    await request.run(_record, request, "tape.delete")
    return Deleted(id=request.id)


def _make_unknown_error() -> NotFound:
    return NotFound("There is no such tape on this node, or it has expired.", code="unknown_tape")


def _record(request: AdminRequest, action: str) -> None:
    """Write an access to the audit log. Synchronous."""
    with request.services.database.write() as connection:
        audit.record(connection, request.actor, action, request.id)


_NODE = "Of the node that answers. Tapes have the texts of requests and responses."

ROUTES = [
    AdminRoute(
        method="GET", path="/tapes", limited=ADMINISTRATION, function=list_tapes, tag=_TAG, answer=Page[TapeInfo],
        summary="List the recorded requests", description=f"The newest first. {_NODE}",
    ),
    AdminRoute(
        method="GET", path="/tapes/{id}", limited=ADMINISTRATION, function=get_tape, tag=_TAG, answer=TextAnswer,
        summary="Download a tape", description=f"JSON lines. The audit log names who has read it. {_NODE}",
    ),
    AdminRoute(
        method="DELETE", path="/tapes/{id}", limited=ADMINISTRATION, function=delete_tape, tag=_TAG, answer=Deleted,
        summary="Delete a tape", description=_NODE,
    ),
]  # fmt: skip
