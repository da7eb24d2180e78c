"""A forward proxy for tests, which logs what goes through it."""

from __future__ import annotations

import re
import sys

from tests.support.process import Child


class ForwardProxy:
    """A running proxy. `address` has no login."""

    def __init__(self, login: str = "") -> None:
        self.login = login
        self.child = Child([sys.executable, "-m", "tests.support.proxy_server", *([login] if login else [])])
        self.port = int(self.child.wait_for_line(r"listening on (\d+)")[1])

    @property
    def url(self) -> str:
        """Return the address with the login."""
        return f"http://{f'{self.login}@' if self.login else ''}127.0.0.1:{self.port}"

    def wait_for_line(self, text: str, count: int = 1) -> str:
        """Wait until the log contains `text` `count` times, and return the log. A tunnel is logged when it is closed."""
        return self.child.wait_for_output(re.escape(text), count)

    def stop(self) -> None:
        self.child.stop()
