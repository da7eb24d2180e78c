"""Snapshot: one loaded configuration, in parts. Functions take the part that they need."""

from __future__ import annotations

from collections.abc import Mapping

from tornado_gate.accounts.key_record import KeyRecord
from tornado_gate.config.model import Config
from tornado_gate.guards.decisions import Guards
from tornado_gate.ledger.prices import PriceTable
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.targets.routing import RouteTable
from tornado_gate.targets.table import TargetTable
from tornado_gate.types.value import Value


class PluginFaults(Value, frozen=True):
    """The faults of plugins in a configuration that can still be used.

    `failed` are the enabled plugins that cannot work, with their errors. `closed` are the required wrappers among them; requests
    in their scopes get 503. `warnings` are (key path, message) of settings that are valid but unsafe.
    """

    failed: Mapping[str, str]
    closed: frozenset[str]
    warnings: tuple[tuple[tuple[str | int, ...], str], ...]


class Snapshot(Value, frozen=True, kw_only=True):
    """One loaded configuration. `number` counts the snapshots of this process, from 1.

    `formats` are the lanes of the formats by name, and `routes` are the routes that they serve. `targets` are the models and
    their targets, with their `prices`. `guards` are the reviewers of texts. `keys` are the API keys of conf by their digests.
    """

    number: int
    config: Config
    formats: Mapping[str, FormatLane]
    routes: RouteTable
    targets: TargetTable
    prices: PriceTable
    guards: Guards
    keys: Mapping[bytes, KeyRecord]
    plugins: PluginFaults

    hidden_fields = frozenset({"keys", "targets"})
