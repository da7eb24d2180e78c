"""The choice of the handler of requests for models. A feature that needs another handler costs nothing while it is off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tornado.httputil import HTTPMessageDelegate

from tornado_gate.config.model import Config
from tornado_gate.server.handlers.direct_answer import DirectAnswerHandler
from tornado_gate.server.handlers.realtime import RealtimeHandler
from tornado_gate.server.services import Services


class AnswerHandlers:
    """The handlers of the current configuration. `make` creates one, from a `CallerRequest` and a `MatchedRoute`.

    `realtime` is the class for realtime sessions.
    """

    make: Callable[[Any, Any], HTTPMessageDelegate]
    realtime: type[Any] = RealtimeHandler

    def configure(self, services: Services, config: Config) -> None:
        """Choose the handlers that record tapes if the configuration has the section ``tapes``."""
        if config.tapes is None:
            self.make, self.realtime = partial(DirectAnswerHandler, services), RealtimeHandler
            return
        from tornado_gate.server.handlers.taped_answer import TapedAnswerHandler
        from tornado_gate.server.handlers.taped_realtime import TapedRealtimeHandler

        self.make, self.realtime = partial(TapedAnswerHandler, services), TapedRealtimeHandler
        if services.tapes.videos is None:
            from tornado_gate.tapes.video_tapes import VideoTapes

            services.tapes.videos = VideoTapes(services.tapes.end, services.tasks.engine)
