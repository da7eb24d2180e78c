"""The fixtures of all tests, which are found by name."""

from tests.support.fixtures import *  # noqa: F403
