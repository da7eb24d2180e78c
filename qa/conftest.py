"""All tests of this folder have the marker `qa`. Their fixtures are those of `tests`."""

import pytest

from tests.support.fixtures import *  # noqa: F403


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("qa")
