"""Tells systemd what this process does (sd_notify(3)); nothing without NOTIFY_SOCKET, which `Type=notify` sets."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)

VARIABLE = "NOTIFY_SOCKET"


def notify_ready() -> None:
    """This process serves, and is the main one of its unit from now on, also if another one started it."""
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
