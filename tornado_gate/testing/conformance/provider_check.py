"""Check a provider: every operation that it declares, in every installed format, in every way that the format describes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tornado_gate.errors import ConfigError, GateError
from tornado_gate.hookspecs import Capabilities
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.testing.conformance import answer_checks, fault_checks, flow_checks
from tornado_gate.testing.conformance.answers import choose_answers
from tornado_gate.testing.conformance.declaration import Declaration, find_declaration
from tornado_gate.testing.conformance.driver import Driver, Exchange, configure, make_entry, make_host, open_driver
from tornado_gate.testing.conformance.examples import Example, list_examples
from tornado_gate.testing.conformance.report import PluginReport, Row
from tornado_gate.testing.conformance.session_checks import check_sessions
from tornado_gate.testing.differences import GUIDE
from tornado_gate.testing.stage import CallerAnswer

NOT_DRIVEN = {"models", "realtime", "admin"}


async def check_provider(name: str, declaration: Declaration, report: PluginReport) -> None:
    """Drive the provider `name`, and record all results in `report`."""
    formats = find_formats()
    setup = declaration.conformance
    try:
        capabilities = configure(make_host([name]), name, make_entry(name, setup, "http://127.0.0.1:1"))
    except ConfigError as error:
        faults = "; ".join(f"{'.'.join(map(str, path))} {what}" for path, what in error.faults)
        what = f"{faults}. Say which settings the kit must use in `Conformance.settings`, see {GUIDE}."
        return report.fail("configure", "the provider entry of the kit", what)
    except GateError as error:
        return report.fail("configure", "the provider entry of the kit", error.message)
    answers = choose_answers(declaration, capabilities.speaks)
    async with open_driver(name, list(formats), setup, answers) as driver:
        examples = [example for examples in formats.values() for example in examples]
        await ProviderCheck(driver, report, capabilities).run(examples)


def find_formats() -> dict[str, list[Example]]:
    """Return the examples of all working installed formats, by the format's name."""
    host = PluginHost()
    formats = {}
    for name in sorted(host.plugins):
        plugin = host.load(name)
        if "format" in plugin.hooks and not plugin.error and not plugin.wrapper:
            try:
                contracts = find_declaration(plugin).list_format_examples()
                formats[name] = list(list_examples(FormatLane(host, plugin, []), contracts))
            except Exception:  # the check of a broken format reports it, so the checks of providers need not
                continue
    return formats


class ProviderCheck:
    """The check of one provider. `on_answer` receives each response to an unchanged request."""

    def __init__(
        self,
        driver: Driver,
        report: PluginReport,
        capabilities: Capabilities,
        on_answer: Callable[[Example, CallerAnswer], None] | None = None,
    ) -> None:
        self.driver, self.report, self.capabilities = driver, report, capabilities
        self._on_answer = on_answer

    async def run(self, examples: Sequence[Example], must_serve: Collection[str] | None = None) -> None:
        """Run all checks: first each unchanged request, then faults and breaks for one request of each kind.

        `must_serve` are the operations that must work. By default these are all operations that the plugin declares.
        """
        driver = self.driver
        good: dict[tuple[str, str, bool], tuple[Row, Exchange]] = {}
        for example in examples:
            if example.operation not in self.capabilities.operations or example.operation in NOT_DRIVEN:
                continue
            row, exchange = await self._drive_example(example)
            if exchange.answer.status < 300:
                good.setdefault((row.operation, row.lane, row.streamed), (row, exchange))
        if "realtime" in self.capabilities.operations:
            await check_sessions(driver, self.report)
        for row, exchange in good.values():
            if exchange.answers:
                await fault_checks.check_faults(driver, self.report, row, exchange)
            await flow_checks.check_cancellation(driver, self.report, row, exchange)
            await flow_checks.check_back_pressure(driver, self.report, row, exchange)
        self._check_operations(self.capabilities.operations if must_serve is None else must_serve)

    async def _drive_example(self, example: Example) -> tuple[Row, Exchange]:
        """Send one unchanged request, and repeat it with other borders of the upstream's chunks."""
        exchange = await self.driver.send(example)
        row = answer_checks.make_row(exchange)
        self.report.rows.append(row)
        answer_checks.check_answer(self.driver, self.report, row, exchange)
        if row.outcome == "ok" and self._on_answer:
            self._on_answer(example, exchange.answer)
        if exchange.answer.status < 300 and exchange.answers:
            await answer_checks.check_borders(self.driver, self.report, row, exchange)
        return row, exchange

    def _check_operations(self, operations: Collection[str]) -> None:
        """Check that each declared operation worked once, if a format has a route for it."""
        for operation in sorted(operations):
            rows = [row for row in self.report.rows if row.operation == operation]
            if not rows:
                self.report.notes.append(f"operation {operation}: no installed format has an example for it")
            elif all(row.outcome == "refused" for row in rows):
                what = f"The plugin declares the operation, but refused every request: {rows[0].why}"
                self.report.fail("operation", operation, what)
