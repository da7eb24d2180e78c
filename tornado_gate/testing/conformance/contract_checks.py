"""Run the contracts that a plugin ships, with its recorded requests and responses, without pytest."""

from __future__ import annotations

import asyncio
import inspect
import traceback

from tornado_gate.testing.conformance.declaration import Declaration
from tornado_gate.testing.conformance.report import PluginReport


async def check_contracts(declaration: Declaration, report: PluginReport) -> None:
    """Run each test of each contract as one check. The tests start their own event loops, so they run in a thread."""
    for contract in declaration.contracts:
        for name in sorted(dir(contract)):
            if name.startswith("test_"):
                report.count("contracts")
                await asyncio.to_thread(_run_test, contract, name, report)


def _run_test(contract: type, name: str, report: PluginReport) -> None:
    where = f"{contract.__module__}.{contract.__qualname__}.{name}"
    test = getattr(contract(), name)
    if inspect.signature(test).parameters:
        report.notes.append(f"{where} needs fixtures of pytest and was not run")
        return
    try:
        test()
    except AssertionError as error:
        report.fail("contracts", where, str(error) or "".join(traceback.format_exception(error)[-2:]))
    except Exception as error:
        report.fail("contracts", where, "".join(traceback.format_exception(error)[-3:]).strip())
