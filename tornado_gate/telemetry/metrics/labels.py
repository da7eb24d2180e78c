"""The values of labels: names from the configuration and the gateway's own codes. Callers and upstreams cannot create series."""

from __future__ import annotations

from collections.abc import Iterable

from tornado_gate.errors import UPSTREAM_CODES, GateError, PluginError, UpstreamError

OTHER_LABEL = "other"
MAX_CHILDREN = 20_000
"""Maximum number of label combinations (models x formats x statuses); further ones count as "other"."""


class KnownLabels:
    """The names of models and provider entries in the configuration, and the codes of errors. Any other value is "other"."""

    def __init__(self) -> None:
        self._models: frozenset[str] = frozenset()
        self._providers: frozenset[str] = frozenset()
        self._codes = _list_error_codes()

    def set_names(self, models: Iterable[str], providers: Iterable[str]) -> None:
        self._models, self._providers = frozenset(models), frozenset(providers)

    def bind_target(self, model: str, provider: str) -> tuple[str, str]:
        """Return the labels of a model and a provider entry; "" of a request that has reached none stays."""
        return (self.bind_model(model) if model else "", self.bind_provider(provider) if provider else "")

    def bind_model(self, model: str) -> str:
        return model if model in self._models else OTHER_LABEL

    def bind_provider(self, provider: str) -> str:
        return provider if provider in self._providers else OTHER_LABEL

    def bind_code(self, code: str) -> str:
        """Return the label of an error's code; codes made up by upstreams are "other"."""
        return code if code in self._codes else OTHER_LABEL

    def has_target(self, model: str, provider: str) -> bool:
        """Return whether both labels may still be shown after a reload."""
        return model in self._models | {"", OTHER_LABEL} and self.has_provider(provider)

    def has_provider(self, provider: str) -> bool:
        """Return whether the label may still be shown after a reload."""
        return provider in self._providers | {"", OTHER_LABEL}

    def is_configured(self, provider: str) -> bool:
        """Return whether a provider entry of this name exists."""
        return provider in self._providers


def _list_error_codes() -> frozenset[str]:
    """Return the error codes that the gateway itself assigns to failures of upstreams and plugins."""
    codes = {*UPSTREAM_CODES, PluginError.code}
    pending: list[type[GateError]] = [UpstreamError]
    while pending:
        kind = pending.pop()
        codes.add(kind.code)
        pending += kind.__subclasses__()
    return frozenset(codes)
