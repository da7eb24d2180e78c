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
    """What is wrong with the plugins of a configuration, though it may be used.

    `failed` are the plugins that are on and cannot work, with their errors; for those in `closed`, which are required wrappers,
    the requests in their scopes get 503. `warnings` are (key path, message) of what is valid but unsafe.
    """

    failed: Mapping[str, str]
    closed: frozenset[str]
    warnings: tuple[tuple[tuple[str | int, ...], str], ...]


class Snapshot(Value, frozen=True, kw_only=True):
    """One loaded configuration. `number` counts them in this process, from 1.

    `formats` are the lanes of the formats by name, `routes` what they serve; `targets` are the models and where they are served,
    `prices` what that costs, `guards` those who review texts. `keys` are those of conf by their digests.
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
