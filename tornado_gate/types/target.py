"""The target of a request: a provider entry of conf and the upstream's name of the model, with its time limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.upstream_objects import ALL_KINDS
from tornado_gate.types.value import Value, field


class Timeouts(Value, frozen=True, kw_only=True):
    """Time limits in seconds: `connect` to connect, `first_event` to the first event, `gap` between two events, `total` for
    all.

    `whole` is the time to the first byte of a whole response (a response without streaming); None: as `first_event`.
    """

    connect: float = 5.0
    first_event: float = 60.0
    whole: float | None = None
    gap: float = 60.0
    total: float = 600.0


class Target(Value, frozen=True, kw_only=True):
    """A provider entry of conf and the upstream's name of the model.

    `provider` is the entry's name and `plugin` its plugin. `model` is the name in conf under which the target was found,
    `upstream_model` the name to send. `headers` are the entry's headers, which the plugin adds to its requests. The core enforces
    `timeouts`. `base_url` has no trailing slash; it includes a version segment if the plugin's `configure` added one.
    `settings` is the value from the plugin's `configure`, else the entry's settings. `facts` are the model's descriptive keys
    in conf (token limits, …). `operations` are the operations allowed by both conf and the plugin; None means all.
    `shared_objects` are the kinds of objects in the provider's account that every caller may use by id. If the entry has several
    keys, `api_key` is the key to use, `key` its fingerprint, and `account_keys` are all keys.
    """

    provider: str
    plugin: str
    model: str
    upstream_model: str
    base_url: str = ""
    api_key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    settings: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    operations: frozenset[str] | None = None
    shared_objects: frozenset[str] = frozenset()
    key: str = ""
    account_keys: tuple[str, ...] = ()

    hidden_fields = frozenset({"api_key", "headers", "account_keys"})

    @property
    def place(self) -> tuple[str, str]:
        """The provider entry and the canonical name of the upstream model: the key of measurements and circuits."""
        return self.provider, canonicalize_name(self.upstream_model)

    def shares(self, kind: str) -> bool:
        """Whether every caller may use objects of this kind in the provider's account by id."""
        return kind in self.shared_objects or ALL_KINDS in self.shared_objects

    def first_supported_operation(self, operations: Iterable[str]) -> str:
        """Return the first of `operations` that the target supports, or ""."""
        for operation in operations:
            if self.operations is None or operation in self.operations:
                return operation
        return ""


NO_TARGET = Target(provider="", plugin="", model="", upstream_model="")
