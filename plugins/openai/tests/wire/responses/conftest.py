"""A fixed time of completion, so that whole responses can be compared."""

from collections.abc import Iterator
from types import SimpleNamespace
from unittest import mock

import pytest


@pytest.fixture(scope="package", autouse=True)
def fixed_completion_time() -> Iterator[None]:
    with mock.patch("tornado_gate_openai.wire.responses.response.time", SimpleNamespace(time=lambda: 6.0)):
        yield
