"""A plugin's declaration for the conformance kit: its configuration, and the responses of its upstream.

A plugin ships a module with a `Conformance` and with its contracts. This is the module ``conformance`` of the plugin's
package (``tornado_gate_acme.conformance``), or ``tornado_gate_acme_conformance`` beside a single module. An entry point
of the group ``tornado_gate_conformance`` with the plugin's name can name any other module. docs/plugins/plugin-testing.md shows
an example.
"""

from __future__ import annotations

import inspect
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType

from tornado_gate.plugins.host import Plugin
from tornado_gate.testing.declaration import Conformance
from tornado_gate.testing.format_contract import FormatContract
from tornado_gate.testing.provider_contracts import BaseProviderContract
from tornado_gate.types import RouteExample
from tornado_gate.types.value import Value

ENTRY_POINT_GROUP = "tornado_gate_conformance"


class Declaration(Value, frozen=True, kw_only=True):
    """The `Conformance` of a plugin, and the contracts of the same module. `module` is "" if the plugin ships none."""

    conformance: Conformance = Conformance()
    contracts: tuple[type, ...] = ()
    module: str = ""

    @property
    def provider_contracts(self) -> list[type[BaseProviderContract]]:
        return [contract for contract in self.contracts if issubclass(contract, BaseProviderContract)]

    def list_format_examples(self) -> dict[str, list[RouteExample]]:
        """Return the requests of the format's contracts, by the path of their route."""
        examples: dict[str, list[RouteExample]] = {}
        for contract in self.contracts:
            if issubclass(contract, FormatContract):
                path, example = contract().make_example()
                examples.setdefault(path, []).append(example)
        return examples


def find_declaration(plugin: Plugin) -> Declaration:
    """Return the declaration in the plugin's module for the kit. Raises every error of its import."""
    module = _find_module(plugin)
    if module is None:
        return Declaration()
    conformances = [value for value in vars(module).values() if isinstance(value, Conformance)]
    contracts = tuple(
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and _is_contract(value)
    )
    return Declaration(
        conformance=conformances[0] if conformances else Conformance(), contracts=contracts, module=module.__name__
    )


def _is_contract(value: type) -> bool:
    """Return whether a class is a contract with tests, and not a base class without a plugin."""
    return any(name.startswith("test_") for name in dir(value)) and hasattr(value, "plugin")


def _find_module(plugin: Plugin) -> ModuleType | None:
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP, name=plugin.name):
        return import_module(entry_point.module)
    for name in (f"{plugin.module}.conformance", f"{plugin.module}_conformance"):
        try:
            known = find_spec(name)
        except ModuleNotFoundError:  # the plugin is a single module
            known = None
        if known is not None:
            return import_module(name)
    return None
