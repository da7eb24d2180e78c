"""The messages to systemd about the state of this process (sd_notify(3)), which `Type=notify` needs.

Without NOTIFY_SOCKET, no message is sent.
"""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)

VARIABLE = "NOTIFY_SOCKET"


def notify_ready() -> None:
    """Report that this process serves, and that it is the main one of its unit now, even if another process started it."""
    _notify(f"READY=1\nMAINPID={os.getpid()}")


def notify_stopping() -> None:
    _notify("STOPPING=1")


def _notify(state: str) -> None:
    address = os.environ.get(VARIABLE, "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto(state.encode(), address)
    except OSError as error:
        log.warning("systemd cannot be notified: %s", error.strerror)
