"""Acme: a guard that replaces e-mail addresses in requests and answers, in every wire format and in streams."""

import re

from marshmallow import Schema, fields

from tornado_gate import PluginEntry, guard_impl, plugin_impl, types
from tornado_gate.config import load_settings

ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
LONGEST = 384  # characters of the longest match: a stream holds them back until more follow


class Settings(Schema):
    """The plugin's own keys under ``plugins:`` in conf."""

    mark = fields.String(load_default="[e-mail]")


class Acme:
    def __init__(self, mark: str = "[e-mail]") -> None:
        self.mark = mark

    @plugin_impl
    def configure_plugin(self, entry: PluginEntry) -> "Acme":
        return Acme(**load_settings(Settings, entry.settings))

    @guard_impl
    def guard_options(self) -> types.GuardOptions:
        return types.GuardOptions(lookahead=LONGEST)

    @guard_impl
    def review_request(self, texts: list[types.GuardedText]) -> types.Decision:
        return self.redact(texts)

    @guard_impl
    def review_response(self, texts: list[types.GuardedText]) -> types.Decision:
        return self.redact(texts)

    def redact(self, texts: list[types.GuardedText]) -> types.Decision:
        spans = types.find_spans(texts, ADDRESS, lambda match: self.mark)
        return types.Replace(tuple(spans)) if spans else None
