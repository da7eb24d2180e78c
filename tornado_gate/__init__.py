"""tornado_gate: one server between applications and the makers of AI models.

These are the names that a plugin author needs; `tornado_gate.hookspecs` is the contract in prose.
"""

from tornado_gate import errors, types
from tornado_gate._version import __version__
from tornado_gate.codec.json_edit import REMOVE, patch_json
from tornado_gate.hookspecs import Capabilities, ProviderEntry, format_impl, provider_impl
from tornado_gate.plugins.lazy_import import lazy_import
from tornado_gate.streams import events, passthrough, sse, stages

# The names that plugins written for 0.1 use. They go with 0.3.
stream, flow, needed_later = events, stages, lazy_import

__all__ = [
    "REMOVE",
    "Capabilities",
    "ProviderEntry",
    "__version__",
    "errors",
    "events",
    "flow",
    "format_impl",
    "lazy_import",
    "needed_later",
    "passthrough",
    "patch_json",
    "provider_impl",
    "sse",
    "stages",
    "stream",
    "types",
]
