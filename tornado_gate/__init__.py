"""tornado_gate: one server between applications and the makers of AI models.

These are the names that a plugin author needs; `tornado_gate.hookspecs` is the contract in prose.
"""

from tornado_gate import errors, flow, sse, stream, types
from tornado_gate._version import __version__
from tornado_gate.hookspecs import Capabilities, ProviderEntry, format_impl, provider_impl
from tornado_gate.patch import REMOVE, patch_json
from tornado_gate.wire.later import needed_later

__all__ = [
    "REMOVE",
    "Capabilities",
    "ProviderEntry",
    "__version__",
    "errors",
    "flow",
    "format_impl",
    "needed_later",
    "patch_json",
    "provider_impl",
    "sse",
    "stream",
    "types",
]
