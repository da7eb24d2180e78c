"""tornado_gate: a gateway between applications and the providers of AI models.

These are the public names for plugins; `tornado_gate.hookspecs` documents the hooks.
"""

from tornado_gate import errors, types
from tornado_gate._version import __version__
from tornado_gate.codec.json_edit import REMOVE, patch_json
from tornado_gate.hookspecs import (
    Capabilities,
    PluginEntry,
    ProviderEntry,
    format_impl,
    guard_impl,
    plugin_impl,
    provider_impl,
)
from tornado_gate.plugins.lazy_import import lazy_import
from tornado_gate.streams import events, ndjson, passthrough, sse, stages

__all__ = [
    "REMOVE",
    "Capabilities",
    "PluginEntry",
    "ProviderEntry",
    "__version__",
    "errors",
    "events",
    "format_impl",
    "guard_impl",
    "lazy_import",
    "ndjson",
    "passthrough",
    "patch_json",
    "plugin_impl",
    "provider_impl",
    "sse",
    "stages",
    "types",
]
