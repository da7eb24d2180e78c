"""The choice of the handler of requests for models. A feature that needs another handler costs nothing while it is off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tornado.httputil import HTTPMessageDelegate

from tornado_gate.config.model import Config
from tornado_gate.server.handlers.direct_answer import DirectAnswerHandler
from tornado_gate.server.services import Services


class AnswerHandlers:
    """The handler of the current configuration. `make` creates one, from a `CallerRequest` and a `MatchedRoute`."""

    make: Callable[[Any, Any], HTTPMessageDelegate]

    def configure(self, services: Services, config: Config) -> None:
        """Choose the handler that records tapes if the configuration has the section ``tapes``."""
        if config.tapes is None:
            self.make = partial(DirectAnswerHandler, services)
            return
        from tornado_gate.server.handlers.taped_answer import TapedAnswerHandler

        self.make = partial(TapedAnswerHandler, services)
