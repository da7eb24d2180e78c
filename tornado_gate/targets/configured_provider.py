"""Provider entries of conf, configured by their plugins: with one key, or with each of several."""

from __future__ import annotations

from collections.abc import Hashable

from tornado_gate.config.model import ProviderConfig, Secret
from tornado_gate.errors import ConfigError, PluginError
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.targets.provider_keys import ProviderKey, make_fingerprint
from tornado_gate.types.value import Value


class ConfiguredProvider(Value, frozen=True):
    """A provider entry with the capabilities that its plugin declares; `lane` is None when the plugin failed.

    `identity` is equal in two snapshots with the same account at the upstream: they share its connection pool. `keys`
    are the keys of an entry with several, else ().
    """

    entry: ProviderConfig
    lane: ProviderLane | None
    capabilities: Capabilities
    identity: Hashable
    keys: tuple[ProviderKey, ...] = ()

    hidden_fields = frozenset({"identity"})  # it contains the keys

    @property
    def usable_lane(self) -> ProviderLane:
        """Return the lane. Raises PluginError if the plugin failed."""
        if self.lane is None:
            raise PluginError(self.entry.plugin, "the plugin failed earlier")
        return self.lane

    @classmethod
    def from_entry(
        cls,
        entry: ProviderConfig,
        lane: ProviderLane | None,
        capabilities: Capabilities,
        keys: tuple[ProviderKey, ...] = (),
    ) -> ConfiguredProvider:
        headers = tuple(sorted((name, str(value)) for name, value in entry.headers.items()))
        secrets = (str(entry.api_key), *map(str, entry.api_keys))
        account = (entry.name, entry.plugin, entry.base_url, secrets, headers, entry.timeouts, entry.network)
        return cls(entry, lane, capabilities, account, keys)

    def find_key(self, fingerprint: str) -> ProviderKey | None:
        """Return the key with a fingerprint; None if the entry has only one key, or no longer has this key."""
        return next((key for key in self.keys if key.fingerprint == fingerprint), None)


def configure_entry(entry: ProviderConfig, lane: ProviderLane, api_key: Secret | None = None) -> Capabilities:
    """Return the capabilities that the plugin declares for an entry with one of its keys, the first by default.

    Raises ConfigError with paths below the entry, or PluginError.
    """
    api_key = entry.api_key if api_key is None else api_key
    seen_by_plugin = ProviderEntry(
        name=entry.name, base_url=entry.base_url, api_key=api_key, headers=entry.headers, settings=entry.settings
    )
    return lane.configure(seen_by_plugin)


def _rename_key(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the path of a fault in one of several keys. The plugin reports it below ``api_key``."""
    return ("api_keys", *path[1:]) if path[:1] == ("api_key",) else path


def configure_keys(entry: ProviderConfig, lane: ProviderLane, first: Capabilities) -> tuple[ProviderKey, ...]:
    """Return the keys of an entry with several, each configured by the plugin. `first` is the result for the first key.

    Raises the errors of `configure_entry`.
    """
    keys: list[ProviderKey] = []
    for index, api_key in enumerate(entry.api_keys):
        try:
            made = configure_entry(entry, lane, api_key) if index else first
        except ConfigError as error:
            raise ConfigError([(_rename_key(path), message) for path, message in error.faults]) from None
        base_url = entry.base_url if made.base_url is None else made.base_url
        settings = entry.settings if made.settings is None else made.settings
        keys.append(ProviderKey(index + 1, make_fingerprint(entry.name, api_key), api_key, base_url, settings))
    return tuple(keys)
