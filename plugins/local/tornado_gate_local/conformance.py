"""For ``tornado-gate plugins check local``: there is no upstream, and so no key."""

from tornado_gate.testing import Conformance

conformance = Conformance(api_key="")
