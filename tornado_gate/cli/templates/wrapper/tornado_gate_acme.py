"""Acme: a wrapper that logs requests whose upstream takes long to respond."""

import logging
import time
from collections.abc import Awaitable, Generator
from typing import Any

from marshmallow import Schema, fields

from tornado_gate import PluginEntry, plugin_impl, provider_impl, types
from tornado_gate.config import load_settings

log = logging.getLogger(__name__)

Pending = Awaitable[types.UpstreamResponse]


class Settings(Schema):
    """The plugin's own keys under ``plugins:`` in conf."""

    slow_seconds = fields.Float(load_default=5.0)


class Acme:
    def __init__(self, slow_seconds: float = 5.0) -> None:
        self.slow_seconds = slow_seconds

    @plugin_impl
    def configure_plugin(self, entry: PluginEntry) -> "Acme":
        return Acme(**load_settings(Settings, entry.settings))

    @provider_impl(wrapper=True)
    def call_upstream(self, call: types.Call) -> Generator[None, Pending, Pending]:
        pending = yield  # a coroutine that has not started: only the one that is returned can measure it
        return self.measure(call, pending)

    async def measure(self, call: types.Call, pending: Pending) -> Any:
        started = time.monotonic()
        try:
            return await pending
        finally:
            seconds = time.monotonic() - started
            if seconds >= self.slow_seconds:
                log.warning("%s: the provider %s responded after %.3f s", call.id, call.target.provider, seconds)
