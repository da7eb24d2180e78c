"""The contract of wrappers: what the cache has nothing to do with passes unchanged, in both lanes."""

from tornado_gate.testing import WrapperContract
from tornado_gate_cache import Cache


class TestContract(WrapperContract):
    plugin = Cache
