"""The contract of guards, with fixed and with reversible marks, at every split of a stream."""

from __future__ import annotations

from typing import ClassVar

import tornado_gate_redact
from tornado_gate.testing import GuardCase, GuardContract


class TestRedact(GuardContract):
    plugin = tornado_gate_redact.Redact
    bad_settings: ClassVar = {"kinds": ["everything"]}
    requests: ClassVar = (
        GuardCase(text="Write to ann@example.com.", becomes="Write to ***.", hidden=("ann@example.com",)),
        GuardCase(text="Pay 4111 1111 1111 1111 now", becomes="Pay *** now", hidden=("4111 1111",)),
    )
    responses: ClassVar = (
        GuardCase(text="Call +49 30 901820 now.", becomes="Call *** now.", hidden=("901820",)),
        GuardCase(text="Nothing to hide", becomes="Nothing to hide"),
    )
