"""Check one installed plugin, for the command ``tornado-gate plugins check`` and for tests."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from tornado_gate.plugins.host import Plugin, PluginHost
from tornado_gate.testing.conformance.contract_checks import check_contracts
from tornado_gate.testing.conformance.declaration import find_declaration
from tornado_gate.testing.conformance.driver import API_KEY
from tornado_gate.testing.conformance.format_check import check_format
from tornado_gate.testing.conformance.provider_check import check_provider
from tornado_gate.testing.conformance.report import PluginReport
from tornado_gate.testing.conformance.wrapper_check import check_wrapper


def list_names() -> list[str]:
    """Return the names of all installed plugins."""
    return sorted(PluginHost().plugins)


async def check_plugin(name: str) -> PluginReport:
    """Check an installed plugin. Raises KeyError if it is not installed."""
    host, started = PluginHost(), time.monotonic()
    plugin = host.plugins[name]
    report = PluginReport(name=name, kind="unknown", version=plugin.version)
    with _capture_logs(plugin, report):
        plugin = host.load(name)
        report.kind = plugin.kind or report.kind
        if plugin.error:
            report.fail("import", plugin.module, plugin.error)
        else:
            await _check_by_kind(plugin, report)
    report.seconds = time.monotonic() - started
    return report


async def _check_by_kind(plugin: Plugin, report: PluginReport) -> None:
    try:
        declaration = find_declaration(plugin)
    except Exception as error:
        what = "".join(traceback.format_exception_only(error)).strip()
        return report.fail("import", f"the module of {plugin.name} for the conformance kit", what)
    await check_contracts(declaration, report)
    if plugin.wrapper:
        return await check_wrapper(plugin.name, declaration, report)
    if "provider" in plugin.hooks:
        await check_provider(plugin.name, declaration, report)
    if "format" in plugin.hooks:
        await check_format(plugin.name, declaration, report)


class _LogCheck(logging.Handler):
    """A log handler that searches the plugin's logs for the API key, and keeps the gateway's messages from the terminal."""

    def __init__(self, plugin: Plugin, report: PluginReport) -> None:
        super().__init__()
        self._module, self._report = plugin.module.partition(".")[0], report

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(self._module) and API_KEY in record.getMessage():
            self._report.fail("secrets", f"log {record.name}", "The plugin logs the API key of the upstream.")


@contextmanager
def _capture_logs(plugin: Plugin, report: PluginReport) -> Iterator[None]:
    handler, root = _LogCheck(plugin, report), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
