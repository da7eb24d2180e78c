"""The scripted upstream. `dashscope_calls` becomes importable: this folder is not a package, because the core's is
called `tests` too.
"""

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
    """Return the scripted upstream, in a separate process, with an empty script and no records."""
    upstream_process.reset()
    return upstream_process
