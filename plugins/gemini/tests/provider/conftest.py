"""The scripted upstream; and `gemini_calls` made importable: in this folder there is no package, because the core's is called
`tests` too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.upstream import Upstream

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def upstream_process() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture
def upstream(upstream_process: Upstream) -> Upstream:
    """The scripted upstream, in a process of its own, with nothing in its script and its records."""
    upstream_process.reset()
    return upstream_process
