"""Check a wrapper: responses of all kinds around a reference format, and around every installed format with its examples."""

from __future__ import annotations

from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.wrappers import Scope
from tornado_gate.testing import wrapper_checks
from tornado_gate.testing.conformance.declaration import Declaration
from tornado_gate.testing.conformance.driver import open_driver
from tornado_gate.testing.conformance.provider_check import ProviderCheck, find_formats
from tornado_gate.testing.conformance.recorder import Recorder
from tornado_gate.testing.conformance.report import PluginReport
from tornado_gate.testing.declaration import Conformance
from tornado_gate.testing.differences import GUIDE
from tornado_gate.testing.reference import OPERATIONS, ReferenceHttpProvider, answer_upstream
from tornado_gate.testing.scripted_upstream import ReceivedRequest, UpstreamAnswer
from tornado_gate.testing.wrapper_site import install

PROVIDER = "reference-http"
UNKNOWN_SETTING = {"no_such_setting_of_the_kit": True}


async def check_wrapper(name: str, declaration: Declaration, report: PluginReport) -> None:
    """Drive the wrapper `name`, and record all results in `report`."""
    options = PluginOptions(settings=declaration.conformance.plugin_settings)
    try:
        PluginHost().configure(name, options, Scope())
    except ConfigError as error:
        faults = "; ".join(f"{'.'.join(map(str, path))} {what}" for path, what in error.faults)
        what = f"{faults}. Say which settings the kit must use in `Conformance.plugin_settings`, see {GUIDE}."
        return report.fail("settings", name, what)
    add = install(name)
    if what := wrapper_checks.find_accepted_settings(add, UNKNOWN_SETTING):
        report.fail("settings", name, f"{what}. Check the settings with tornado_gate.config.load_settings.")
    for check, find in (
        ("unchanged", wrapper_checks.find_changes),
        ("cancellation", wrapper_checks.find_leaks),
        ("back-pressure", wrapper_checks.find_floods),
    ):
        report.count(check)
        for problem in await find(add, options):
            report.fail(check, f"around the reference format and provider, {problem.partition(': ')[0]}", problem)
    await _check_formats(name, options, report)


async def _check_formats(name: str, options: PluginOptions, report: PluginReport) -> None:
    """Drive the wrapper around every installed format, with the reference provider."""

    def answer(request: ReceivedRequest, _recorder: Recorder) -> UpstreamAnswer:
        return answer_upstream(request)

    formats = find_formats()
    examples = [example for of_format in formats.values() for example in of_format if example.operation in OPERATIONS]
    added = {PROVIDER: ReferenceHttpProvider()}
    names = [name, *formats]
    async with open_driver(PROVIDER, names, Conformance(), answer, {name: options}, added) as driver:
        await ProviderCheck(driver, report, driver.capabilities).run(examples, must_serve={"chat"})
