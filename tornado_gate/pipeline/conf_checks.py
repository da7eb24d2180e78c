"""Checks of conf that need the plugins: the names of plugins and of operations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tornado_gate.config.faults import Fault, KeyPath, KnownNames
from tornado_gate.config.model import Config, ModelEntry
from tornado_gate.hookspecs import Capabilities
from tornado_gate.types import Operation, Route
from tornado_gate.types.wire import OPERATIONS


def list_operations(routes: Iterable[Route], capabilities: Iterable[Capabilities]) -> set[Operation]:
    """Return the operations of the vocabulary, of the formats' routes and of the providers."""
    operations = OPERATIONS | {operation for route in routes for operation in route.operations}
    return set(operations).union(*(each.operations for each in capabilities))


class NameChecks:
    """A search for names in conf that no plugin defines.

    `installed` are the names of all installed plugins. `routes` are the routes of the enabled formats. `capabilities` has an
    item for each provider entry whose plugin works. `is_complete`: no plugin has failed, so all operations are known.
    """

    def __init__(
        self,
        config: Config,
        installed: Collection[str],
        routes: Sequence[Route],
        capabilities: Mapping[str, Capabilities],
        is_complete: bool,
    ) -> None:
        self._config = config
        self._plugins = KnownNames(installed)
        self._capabilities = capabilities
        self._is_complete = is_complete
        operations = list_operations(routes, capabilities.values())
        self._operations = KnownNames(operations)
        variants = {name for route in routes for name in route.other_defaults}
        self._defaults = KnownNames(operations | variants)
        self._are_defaults_known = all(route.other_defaults for route in routes if route.default is not None)

    def find_faults(self) -> Iterator[Fault]:
        yield from self._find_unknown_plugins()
        if self._is_complete:
            yield from self._find_unknown_operations()
        yield from self._find_unsupported_operations()

    def _find_unknown_plugins(self) -> Iterator[Fault]:
        for provider, plugin in self._config.unlisted_plugins.items():
            if plugin not in self._plugins:
                yield ("providers", provider, "plugin"), self._plugins.describe_unknown(f"plugin '{plugin}'", plugin)

    def _find_unknown_operations(self) -> Iterator[Fault]:
        for name in self._config.defaults:
            if self._are_defaults_known and name not in self._defaults:
                yield ("defaults", name), self._defaults.describe_unknown(f"operation '{name}'", name)
        for path, operation in self._list_operations():
            if operation not in self._operations:
                yield path, self._operations.describe_unknown(f"operation '{operation}'", operation)

    def _list_operations(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the operations of keys and of the scopes of wrappers, with their paths."""
        for key in self._config.keys:
            for number, operation in enumerate(key.operations):
                yield ("keys", key.index, "operations", number), operation
        for name, options in self._config.plugin_options.items():
            for number, operation in enumerate(options.operations):
                yield ("plugins", name, "operations", number), operation

    def _find_unsupported_operations(self) -> Iterator[Fault]:
        for name, model in self._config.models.items():
            operations = model.operations or frozenset()
            if not operations or any(target.provider not in self._capabilities for target in model.targets):
                continue
            offered = self._list_offered_operations(name, model)
            for operation in sorted(operations - offered):
                able = ", ".join(sorted(offered)) or "nothing"
                fault = f"no target of this model supports '{operation}'; supported: {able}"
                missing = self._find_missing(name, model, operation)
                yield ("models", name, "operations"), f"{fault}. {missing}" if missing else fault

    def _find_missing(self, name: str, model: ModelEntry, operation: Operation) -> str:
        """Return what to install so that a target of the model supports `operation`, or ""."""
        missing = (
            self._capabilities[target.provider].find_missing(target.model or name, (operation,))
            for target in model.targets
        )
        return next(filter(None, missing), "")

    def _list_offered_operations(self, name: str, model: ModelEntry) -> frozenset[Operation]:
        """Return the operations that any target of a model supports. For a wildcard: all operations of its provider."""
        offered: frozenset[Operation] = frozenset()
        for target in model.targets:
            capabilities = self._capabilities[target.provider]
            upstream_model = target.model or name
            known = "*" not in upstream_model
            offered |= capabilities.get_operations(upstream_model) if known else capabilities.operations
        return offered
