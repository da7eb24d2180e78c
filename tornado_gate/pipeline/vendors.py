"""The vendors whose accounts the installed provider plugins can use, each with its plugin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tornado_gate.errors import GateError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.types.value import Value, replace
from tornado_gate.types.vendors import Vendor


class OfferedVendor(Value, frozen=True, kw_only=True):
    """A vendor and the plugin that offers it.

    `id` is the vendor's name; of two with the same name, the plugin of that name has it.
    """

    plugin: str
    vendor: Vendor
    id: str = ""


def list_vendors(conf: Path | None) -> list[OfferedVendor]:
    """Return the vendors of all installed provider plugins, on or off, by title. Imports plugins; call it in a thread.

    `conf` is the configuration file, whose lock file allows the plugins. A plugin that names no vendor, or several, is also
    offered for others.
    """
    host = PluginHost()  # not the running one: it must not import plugins that are off
    host.use_lock(conf)
    offers = [offer for name in sorted(host.plugins) for offer in _list_of_plugin(host, name)]
    names = Counter(offer.vendor.name for offer in offers)
    named = [replace(offer, id=_make_id(offer, names)) for offer in offers]
    return sorted(named, key=lambda offer: (not offer.vendor.name, offer.vendor.title.casefold()))


def _make_id(offer: OfferedVendor, names: Mapping[str, int]) -> str:
    name = offer.vendor.name
    return name if name and (name == offer.plugin or names[name] == 1) else f"{offer.plugin}/{name}"


def _list_of_plugin(host: PluginHost, name: str) -> Iterator[OfferedVendor]:
    plugin = host.load(name)
    if plugin.error or plugin.wrapper or "provider" not in plugin.hooks:
        return
    try:
        vendors = ProviderLane(host, plugin, []).list_vendors()
    except GateError:
        vendors = None  # the lane has logged it
    for vendor in vendors or ():
        yield OfferedVendor(plugin=name, vendor=vendor)
    if vendors is None or len(vendors) > 1:
        title = f"Another vendor, by the plugin {name}"
        yield OfferedVendor(plugin=name, vendor=Vendor(name="", title=title, needs_key=False))


def find_vendor(offers: list[OfferedVendor], plugin: str, name: str = "") -> OfferedVendor | None:
    """Return the vendor `name` of a plugin, by default the one with the plugin's own name; None without one."""
    vendor_name = name or plugin
    return next((offer for offer in offers if offer.plugin == plugin and offer.vendor.name == vendor_name), None)
