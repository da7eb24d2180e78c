"""An HTTP proxy (proxy.py) in a process of its own: ``python -m tests.support.proxy_server [USER:PASSWORD]``."""

from __future__ import annotations

import signal
import sys

import proxy


def main() -> None:
    options = ["--hostname", "127.0.0.1", "--port", "0", "--num-workers", "1", "--num-acceptors", "1"]
    if sys.argv[1:]:
        options += ["--basic-auth", sys.argv[1]]
    with proxy.Proxy(options) as served:
        print(f"listening on {served.flags.port}", flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
