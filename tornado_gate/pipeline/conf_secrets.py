"""The secrets of a configuration, which logs must mask."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote, urlsplit

from tornado_gate.codec.secret_words import list_secrets
from tornado_gate.config.model import Config
from tornado_gate.config.network import Network, Proxy


def collect_secrets(config: Config) -> set[str]:
    """Return every secret in conf. Secrets in plugins' settings and in addresses are recognised by name and form."""
    values: set[Any] = {key for entry in config.providers.values() for key in (entry.api_key, *entry.api_keys)}
    values |= {value for provider in config.providers.values() for value in provider.headers.values()}
    settings = [entry.settings for entry in config.providers.values()]
    settings += [options.settings for options in config.plugin_options.values()]
    values |= {text for each in settings for text in list_secrets(each)}
    values |= {text for entry in config.providers.values() for text in list_secrets(entry.base_url)}
    values |= {text for sink in config.alerts.sinks.values() for text in (sink.url, sink.secret, sink.password)}
    values |= {key.key for key in config.keys} | {config.server.metrics_token}
    values |= {config.oidc.client_secret if config.oidc else "", *find_passwords(config.database)}
    values |= find_passwords(config.limits.store)
    values |= {
        text for each in _list_networks(config) if each.proxy is not None for text in _list_login_texts(each.proxy)
    }
    if (bucket := config.media.bucket) is not None:
        values |= {bucket.secret, *list_secrets(bucket.options)}
    whole = [str(value) for value in values if isinstance(value, str)]
    halves = [half for value in whole if "://" not in value for half in value.split(":")]  # such as ACCESS:SECRET
    return {value for value in (*whole, *halves) if len(value) >= 8}


def _list_networks(config: Config) -> list[Network]:
    return [config.network, config.fetch.network, *(entry.network for entry in config.providers.values())]


def _list_login_texts(proxy: Proxy) -> set[str]:
    """Return the password of a proxy, as it is, as URLs contain it, and in the header."""
    password = proxy.login.partition(":")[2]
    return {password, quote(password, safe=""), proxy.authorization.removeprefix("Basic ")}


def find_passwords(address: str) -> set[str]:
    """Return the password in a database's address, both as written and decoded."""
    password = urlsplit(address).password or ""
    return {password, unquote(password)}
