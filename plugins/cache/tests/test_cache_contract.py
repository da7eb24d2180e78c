"""The contract of wrappers: requests outside of the cache's scope pass unchanged, in both lanes."""

from tornado_gate.testing import WrapperContract
from tornado_gate_cache import Cache


class TestContract(WrapperContract):
    plugin = Cache
