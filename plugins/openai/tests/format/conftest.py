"""Makes `format_openai_calls` importable: in this folder there is no package, because the core's is called `tests` too."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def fixed_completion_time() -> Iterator[None]:
    """`completed_at` of responses is 6."""
    with mock.patch("tornado_gate_openai.wire.responses.response.time", SimpleNamespace(time=lambda: 6.0)):
        yield
