"""Objects that an upstream keeps under an id: stored responses, files, conversations, containers.

All callers of a provider entry share one account at the upstream. There an id is enough to read another caller's objects. So the
core records for each account the ids that the upstream issued to it (`IssuedObjects`), and refuses ids that are not recorded
(`ObjectReference`). A format declares the references in its requests (`Route.references`) and the ids that a response issues
(`VerbatimRequest.issued`); `targets/upstream_objects.py` records and checks them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from tornado_gate.errors import GateError, NotFound
from tornado_gate.types.value import State, Value, field

OBJECT_KINDS: Final = (
    "response", "item", "conversation", "file", "container", "vector_store", "prompt", "skill", "audio", "cache",
    "interaction", "environment", "credential",
)  # fmt: skip
"""The kinds of objects. `item` is an input or output item of a response, `audio` the audio of an earlier chat completion, `cache`
a cached content. `interaction` and its sandbox, the `environment`, are Gemini's; a `credential` is a secret that the sandbox
sends to addresses which the request chooses, so it is not shared by default."""
OPERATORS_KINDS: Final = frozenset(("file", "vector_store", "prompt", "skill", "cache"))
"""Kinds that callers cannot create through the gateway. The operator made such objects for callers, or keeps their ids secret. So
they are shared unless conf overrides that.
"""
ALL_KINDS: Final = "all"
"""In ``shared_objects`` of a provider entry: every kind."""

StoreMode = Literal["never", "ask", "default"]


class ResponseRules(Value, frozen=True, kw_only=True):
    """The section ``responses`` of conf.

    `store`: responses are never stored, neither here nor at an upstream ("never"); only if the request has ``store: true``
    ("ask"); or unless it has ``store: false`` ("default"). `seconds` is the time for which the gateway keeps a response, or the
    id of a response that an upstream keeps. `copies`: the gateway keeps a copy of each response that an upstream stores, so that
    other targets can continue it.
    """

    store: StoreMode = "default"
    copies: bool = True
    seconds: float = 30 * 24 * 3600.0


def make_record_name(kind: str, identity: str) -> str:
    """Return the name in an account's memory of the core's record that the account received an id."""
    return f"upstream:{kind}:{identity}"


class ObjectReference(Value, frozen=True, kw_only=True):
    """An `id` in a request that names an object of `kind`. `param` is the path of its field.

    `error` returns the error for an id that the account does not own, by default a NotFound. An id that does not exist gets the
    same error. `memory_name` is the name in ``call.memory`` under which the format itself may keep the object, or a copy of it;
    if the core has no record of the id, no upstream has the object. `only_verbatim`: on the common lane the format resolves the
    id and no upstream receives it.
    """

    kind: str
    id: str
    param: str
    error: Callable[[], GateError] | None = None
    memory_name: str = ""
    only_verbatim: bool = False

    def not_found(self) -> GateError:
        """Return the error for an unknown id."""
        if self.error is not None:
            return self.error()
        name = self.kind.replace("_", " ")
        message = f"The {name} '{self.id[:100]}' does not exist. Use an id that this gateway returned to your account."
        return NotFound(message, param=self.param, code=f"{self.kind}_not_found")


class IssuedObjects(State):
    """The objects that an upstream issued in one response: `ids` are pairs of kind and id, without pairs already recorded.

    The format adds to `ids` while it reads the response. It sets `due` when they must be recorded before the caller receives
    more. The core records the remaining ids at the end of the request. `unmetered`: the response will be completed in the
    background, so its usage is known only when it is retrieved. `save` stores further data of the format at the same time.
    """

    ids: list[tuple[str, str]] = field(default_factory=list)
    due: bool = False
    unmetered: bool = False
    save: Callable[[], Awaitable[None]] | None = None


class KeptObject(Value, frozen=True, kw_only=True):
    """The record of an object: the entry that keeps it (`provider`), and the names of its model (`model`, `upstream_model`).

    `unmetered`: its usage is not known yet, except `counted_tokens` of its prompt, which were charged to the request that created
    it. `key` is the fingerprint of the provider's key with which it was created, if the entry has several.
    """

    provider: str
    model: str
    upstream_model: str
    unmetered: bool = False
    key: str = ""
    counted_tokens: int = 0


class StoredObjectRequest(Value, frozen=True, kw_only=True):
    """A request to read, delete or cancel one object that an upstream keeps, such as a stored response.

    The core sends it to the provider entry that keeps the object, or raises the error of `reference`. A provider that accepts
    `wire_format` unchanged sends `method` to the object's path, followed by `action` (``input_items``, ``cancel`` or "") and
    `query`; there is no body. The response goes to the format's `forward_response`. `stream`: the caller requested a stream.
    `unmetered` is set by the core: the usage in the response was not counted yet. `issued` and `state` are as in
    `VerbatimRequest`.
    """

    reference: ObjectReference
    wire_format: str
    method: str
    action: str = ""
    query: tuple[tuple[str, str], ...] = ()
    stream: bool = False
    issued: IssuedObjects | None = None
    unmetered: bool = False
    state: Any = None
