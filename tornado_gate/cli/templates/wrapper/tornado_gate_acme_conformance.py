"""The contract of guards for acme: pytest and `tornado-gate plugins check acme` use it.

The tests send the texts through a gateway, in both lanes and in every wire format, and split streams at every place.
"""

from typing import Any, ClassVar

import tornado_gate_acme
from tornado_gate.testing import GuardCase, GuardContract


class TestAcme(GuardContract):
    plugin = tornado_gate_acme.Acme
    settings: ClassVar[Any] = {"mark": "***"}
    bad_settings: ClassVar[Any] = {"marks": "***"}
    requests = (
        GuardCase(text="Write to ann@example.org.", becomes="Write to ***.", hidden=["ann@example.org"]),
        GuardCase(text="At 5 @ home", becomes="At 5 @ home", hidden=["***"]),
    )
    responses = (GuardCase(text="Ask bob@example.org, please", becomes="Ask ***, please", hidden=["bob", "ple.org"]),)
