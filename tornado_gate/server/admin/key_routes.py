"""/admin/v1/keys: list, create, show, change, rotate and revoke keys. Only the response to a creation or rotation has
the key's text.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeVar

from tornado_gate.accounts.key_rules import check_account, check_adoption, check_key_change, check_new_key
from tornado_gate.accounts.keys import KeyStore, StoredKey
from tornado_gate.accounts.people import Team
from tornado_gate.accounts.stored_key import KeyState
from tornado_gate.codec.durations import parse_duration, parse_moment
from tornado_gate.config.model import Role
from tornado_gate.errors import InvalidField, RequestError
from tornado_gate.server.admin.bodies import KeyChangeSchema, NewKeySchema, RotationSchema
from tornado_gate.server.admin.parameters import (
    PAGE,
    choice_parameter,
    flag_parameter,
    next_offset,
    parse_offset,
    text_parameter,
)
from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Page
from tornado_gate.server.admin.scope import EVERY, check_key, is_in_scope
from tornado_gate.types.value import Value

_TAG = "admin: keys"
T = TypeVar("T")


class KeyView(Value, frozen=True, kw_only=True):
    """A key without its secret: `prefix` are its first characters. Times are Unix seconds; empty lists allow all.

    `state` is the state of the key itself. `suspended` is the reason why an active key cannot be used now, such as "its
    maker is disabled"; null if it can. `replaced_by` is its successor after a rotation. `hidden`: made by the console
    for its playground. `created_by` made the key or its predecessor. `issued_by` rotated or adopted it, and is
    responsible for it.
    """

    id: str
    name: str
    prefix: str
    state: KeyState
    suspended: str | None
    account: str
    user: str | None
    team: str | None
    role: Role
    models: tuple[str, ...]
    operations: tuple[str, ...]
    addresses: tuple[str, ...]
    tags: tuple[str, ...]
    limits: Mapping[str, int]
    budget: Mapping[str, Any]
    hidden: bool
    created_by: str
    issued_by: str | None
    created: float
    expires: float | None
    revoked: float | None
    last_used: float | None
    replaced_by: str | None


class NewKeyView(Value, frozen=True, kw_only=True):
    """A new key: `text` is the secret, which is shown once."""

    text: str
    key: KeyView


def describe_key(key: StoredKey, suspensions: Mapping[str, str]) -> KeyView:
    """Return the view of a key. `suspensions` are the reasons of suspended keys by id."""
    names = [name for name in KeyView.__struct_fields__ if name not in ("state", "suspended")]
    members = {name: getattr(key, name) for name in names}
    return KeyView(state=key.get_state(time.time()), suspended=suspensions.get(key.id), **members)


async def _read_view(request: AdminRequest, key: StoredKey) -> KeyView:
    return describe_key(key, await request.run(_get_store(request).find_suspensions, [key]))


async def list_keys(request: AdminRequest) -> Page[KeyView]:
    """Return a page. If the caller's key has limitations, a page may be short although another one follows."""
    query, scope = request.query, request.scope
    offset = parse_offset(query["after"])
    team = scope.narrow_team(query["team"])
    if team is None:
        return Page(data=(), total=0)
    page_keys, total = await request.run(
        _get_store(request).list_page,
        user=query["user"] or None,
        team=team or None,
        search=query["search"],
        state=query["state"],
        hidden=bool(query["hidden"]),
        offset=offset,
        limit=query["limit"],
    )
    models = await _find_team_models(request)
    seen = [key for key in page_keys if is_in_scope(request.key, key, models)]
    suspensions = await request.run(_get_store(request).find_suspensions, seen)
    keys = tuple(describe_key(key, suspensions) for key in seen)
    after = next_offset(offset, len(page_keys), total)
    return Page(data=keys, next=after, total=None if scope.is_part else total)


async def get_key(request: AdminRequest) -> KeyView:
    return await _read_view(request, await _find_key(request))


async def create_key(request: AdminRequest) -> NewKeyView:
    fields = _read_fields(request.body)
    check_new_key(request.key, **{name: value for name, value in fields.items() if name != "account"})
    for field in ("account", "user"):
        if fields.get(field):
            check_account(request.key, fields[field], field=field)
    await _check_references(request, fields)
    name = fields.pop("name")
    text, key = await request.run(
        _get_store(request).create, name, created_by=request.key.id, actor=request.actor, **fields
    )
    return NewKeyView(text=text, key=await _read_view(request, key))


async def change_key(request: AdminRequest) -> KeyView:
    store, changes = _get_store(request), _read_fields(request.body)
    key = await _find_key(request)
    check_key_change(request.key, (), key, **changes)
    await _check_references(request, changes)
    changed = await request.run(store.change, request.id, actor=request.actor, **changes)
    return await _apply_changes(request, await _read_view(request, changed))


async def rotate_key(request: AdminRequest) -> NewKeyView:
    store = _get_store(request)
    key = await _find_key(request)
    check_key_change(request.key, (), key)
    check_account(request.key, key.account, own=[key.usage_id])
    overlap = _read_overlap(request.body.get("overlap", 0))
    text, new = await request.run(store.rotate, request.id, overlap_seconds=overlap, actor=request.actor)
    return await _apply_changes(request, NewKeyView(text=text, key=await _read_view(request, new)))


async def adopt_key(request: AdminRequest) -> KeyView:
    store = _get_store(request)
    check_adoption(request.key, (), await _find_key(request))
    adopted = await request.run(store.adopt, request.id, request.actor)
    return await _apply_changes(request, await _read_view(request, adopted))


async def revoke_key(request: AdminRequest) -> KeyView:
    store = _get_store(request)
    await _find_key(request)
    if not await request.run(store.revoke, request.id, actor=request.actor):
        raise RequestError(f"The key {request.id} is revoked already.", code="key_revoked", status=409)
    return await _apply_changes(request, await _read_view(request, await request.run(store.get, request.id)))


async def _find_key(request: AdminRequest) -> StoredKey:
    """Return the key in the path. Raises the NotFound of accounts, even for a key outside of the caller's scope."""
    key = await request.run(_get_store(request).get, request.id)
    check_key(request.key, key, await _find_team_models(request))
    return key


async def _find_team_models(request: AdminRequest) -> tuple[str, ...]:
    """Return the models of the team to which the caller is limited. A team of conf has no models here."""
    if not request.scope.team:
        return ()
    teams: list[Team] = await request.run(request.services.accounts.teams.list_all)
    return next((tuple(team.models) for team in teams if team.id == request.scope.team), ())


def _get_store(request: AdminRequest) -> KeyStore:
    return KeyStore(request.services.database)


async def _apply_changes(request: AdminRequest, answer: T) -> T:
    """Return `answer` after this process has read the changed keys. The other processes read them within a second."""
    await request.services.gate.keys.check()
    return answer


def _read_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(body)
    if isinstance(fields.get("expires"), str):
        try:
            fields["expires"] = parse_moment(fields["expires"])
        except ValueError as error:
            raise InvalidField("expires", f"'expires' is wrong: {error}.") from None
    return fields


def _read_overlap(value: float | str) -> float:
    if not isinstance(value, str):
        return float(value)
    try:
        return parse_duration(value)
    except ValueError as error:
        raise InvalidField("overlap", f"'overlap' is wrong: {error}.") from None


async def _check_references(request: AdminRequest, fields: Mapping[str, Any]) -> None:
    """Check that the user and the team exist. Raises the NotFound of accounts."""
    accounts = request.services.accounts
    if fields.get("user"):
        await request.run(accounts.users.get, fields["user"])
    if fields.get("team"):
        await request.run(accounts.teams.get, fields["team"])


_FILTERS = (
    text_parameter("search", "A part of the name, or the beginning of the id or of the key."),
    text_parameter("user", "Only keys of this user."),
    text_parameter("team", "Only keys of this team."),
    choice_parameter("state", "Only keys in this state.", "active", "expired", "revoked"),
    flag_parameter("hidden", "Also those of the console's playground."),
)
_EXAMPLE = {
    "name": "nightly",
    "models": ["local-*"],
    "operations": ["chat"],
    "limits": {"requests_per_minute": 60},
    "budget": {"usd_per_day": 5},
    "expires": "30d",
}

ROUTES = [
    AdminRoute(
        method="GET", path="/keys", function=list_keys, tag=_TAG, answer=Page[KeyView], summary="List the API keys",
        limited=EVERY,
        description="Newest first, without those of conf.", parameters=(*_FILTERS, *PAGE),
    ),
    AdminRoute(
        method="POST", path="/keys", function=create_key, tag=_TAG, limited=EVERY, answer=NewKeyView, summary="Create an API key",
        description="`text` is shown in this answer only. A key never allows more than the key that makes it.",
        body=NewKeySchema, example=_EXAMPLE,
    ),
    AdminRoute(
        method="GET", path="/keys/{id}", function=get_key, tag=_TAG, limited=EVERY, answer=KeyView, summary="Show an API key"
    ),
    AdminRoute(
        method="PATCH", path="/keys/{id}", function=change_key, tag=_TAG, answer=KeyView, summary="Change an API key",
        limited=EVERY,
        description="In force in all processes within a second.", body=KeyChangeSchema,
        example={"tags": ["reviewed"], "limits": {"requests_per_minute": 30}},
    ),
    AdminRoute(
        method="POST", path="/keys/{id}/rotate", function=rotate_key, tag=_TAG, limited=EVERY, answer=NewKeyView,
        summary="Replace an API key by a new one with the same permissions", body=RotationSchema,
        example={"overlap": "1h"},
    ),
    AdminRoute(
        method="POST", path="/keys/{id}/adopt", function=adopt_key, tag=_TAG, answer=KeyView,
        summary="Take over an API key whose maker may not make it any more",
        description="The key works again with the same text, which its maker may still have. Rotate it to replace the text.",
    ),
    AdminRoute(
        method="DELETE", path="/keys/{id}", function=revoke_key, tag=_TAG, answer=KeyView, summary="Revoke an API key",
        limited=EVERY,
        description="In force in all processes within a second. The key stays in the list.",
    ),
]  # fmt: skip
