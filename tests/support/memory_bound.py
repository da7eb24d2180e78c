"""The memory of a test process and of each process that it starts has a bound, so a test that reads without end fails.

Without it the kernel kills the process when the machine has no memory left, and pytest-xdist starts the test again in a new one.
The bound is `RLIMIT_DATA`: it counts memory that a process may write and shares with no other one. It does not count
address space that Node and Chromium reserve. An allocation above it is a MemoryError in the line that asked for it.
"""

from __future__ import annotations

import resource

import pytest

MOST_MEGABYTES = 4096
"""Test processes have up to 700 MB, gateways 200 MB."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--memory-bound",
        type=int,
        default=MOST_MEGABYTES,
        metavar="MB",
        help=f"memory that a test process, and each process that it starts, may use (default {MOST_MEGABYTES} MB)",
    )


def pytest_configure(config: pytest.Config) -> None:
    bound = config.getoption("--memory-bound") * 1024 * 1024
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or bound < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Give the reason, which Python leaves out."""
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, MemoryError) and not error.args:
        bound = item.config.getoption("--memory-bound")
        error.args = (f"more than {bound} MB, the bound of each process of the tests (tests/support/memory_bound.py)",)
