"""The examples of all property tests, the memory of test processes, and the certificate authority that clients trust.

The time to make or run an example decides nothing, because machines differ and are busy. `make test` and `make qa` make the same
examples every time, so a red run can be repeated. `make test` makes a part of them, `make qa` all. `make fuzz` sets FUZZ_FACTOR:
each property test then makes so many times more examples, new ones in each run, and keeps those that failed in .hypothesis/.
"""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import certifi
import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

FACTOR = int(os.environ.get("FUZZ_FACTOR", "0"))

QUICK_SHARE = 0.3
"""The share of the examples that `make test` makes."""
LEAST_EXAMPLES = 10

MOST_GROWTH = 32_000_000
"""Bytes by which a test process may grow before its free memory is given back to the system."""
_memory_after_trim = 0

settings.register_profile(
    "repository", deadline=None, derandomize=not FACTOR, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repository")
if not FACTOR:
    # Hypothesis also tries constants of the modules that are imported, which depend on the tests that the process ran before.
    providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes millions of objects that stay. The garbage collector looks at them once, and never while tests run."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish() -> None:
    """Give free memory back. Tests make bodies of many megabytes, in several threads, and glibc keeps what they free: a process
    that runs thousands of tests would become larger with each of them.
    """
    global _memory_after_trim  # noqa: PLW0603  the process has one heap
    if TRIM is not None and measure_memory() > _memory_after_trim + MOST_GROWTH:
        TRIM(0)
        _memory_after_trim = measure_memory()


TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""A function of glibc."""


def measure_memory() -> int:
    """The bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


PATIENCE_SECONDS = 60.0
"""The time that httpx waits for a response, instead of its default of 5 s: a busy machine answers late."""


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> Iterator[None]:
    """A request of a test ends with its response, not because the machine is busy."""
    default = inspect.signature(httpx.get).parameters["timeout"].default
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "read", "write", "pool"):
            patch.setattr(default, name, PATIENCE_SECONDS)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_certificate_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each client of httpx or of a vendor's SDK reads the certificates of all authorities (over a hundred: 30 ms of CPU
    time), and the tests make thousands of clients. All servers of the tests are on this machine: one authority is enough.
    """
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----")
    bundle = tmp_path_factory.mktemp("authority") / "bundle.pem"
    bundle.write_text(first + end + "\n", encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifi, "where", lambda: str(bundle))
        patch.setenv("SSL_CERT_FILE", str(bundle))
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Multiply the examples of each property test, also of those that say how many they make."""
    factor = FACTOR or (QUICK_SHARE if config.option.markexpr == "not qa" else 1)
    if factor == 1:
        return
    for found in {getattr(item, "obj", None) for item in items}:
        test = getattr(found, "__func__", found)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None:
            examples = max(min(own.max_examples, LEAST_EXAMPLES), round(own.max_examples * factor))
            test._hypothesis_internal_use_settings = settings(own, max_examples=examples)


def pytest_sessionfinish() -> None:
    """End the fork server, if it was used, after all fixtures: gateways of the session stop by its help."""
    if (fork_server := sys.modules.get("tests.support.fork_server")) is not None:
        fork_server.close_fork_server()
