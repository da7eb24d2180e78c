"""The listening sockets of the gateway: bound here, or inherited from systemd or from the gateway that this one replaces.

systemd passes sockets as descriptors from 3 on (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES; sd_listen_fds(3)). A gateway that is
replaced passes them in TORNADO_GATE_LISTENERS (`handover`). All processes accept from the same queues of connections, so that no
connection is refused or lost while one process follows the other.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Final

import msgspec
from tornado.netutil import bind_sockets

from tornado_gate.config.exposure import is_loopback
from tornado_gate.config.model import ServerConfig
from tornado_gate.types.value import Value

VARIABLE: Final = "TORNADO_GATE_LISTENERS"
FIRST_DESCRIPTOR: Final = 3
METRICS_NAME: Final = "metrics"
"""The FileDescriptorName of a systemd socket on which the metrics are served."""
_SYSTEMD_VARIABLES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")

Address = tuple[str, int | None]
"""Host and port as conf names them."""


class ServeError(Exception):
    """An error: the server cannot start. The message has the reason and the remedy."""


class Listeners(Value, frozen=True, kw_only=True):
    """Sockets that listen, or are bound and will listen. `metrics` are the sockets of the separate port for metrics.

    `is_activated`: systemd has chosen the addresses, not conf. Otherwise `address` and `metrics_address` come from conf.
    """

    http: tuple[socket.socket, ...]
    metrics: tuple[socket.socket, ...] = ()
    is_activated: bool = False
    address: Address = ("", None)
    metrics_address: Address = ("", None)

    @property
    def all(self) -> tuple[socket.socket, ...]:
        return (*self.http, *self.metrics)

    def close(self) -> None:
        for listener in self.all:
            listener.close()

    def encode(self) -> str:
        """Return the descriptors and addresses, for the environment of a process that inherits the descriptors."""
        description = _Description(
            http=[listener.fileno() for listener in self.http],
            metrics=[listener.fileno() for listener in self.metrics],
            is_activated=self.is_activated,
            address=self.address,
            metrics_address=self.metrics_address,
        )
        return msgspec.json.encode(description).decode()

    def find_host(self) -> tuple[str, int | None]:
        """Return host and port that the sockets listen on. With several, a host that other machines reach, if there is one.

        A Unix socket counts as loopback: only this machine reaches it.
        """
        names = [_get_name(listener) for listener in self.http]
        return next((name for name in names if not is_loopback(name[0])), names[0])


class _Description(msgspec.Struct):
    http: list[int]
    metrics: list[int]
    is_activated: bool
    address: Address
    metrics_address: Address


def _get_name(listener: socket.socket) -> tuple[str, int | None]:
    if listener.family == socket.AF_UNIX:
        return "localhost", None
    host, port = listener.getsockname()[:2]
    return host, port


def take_inherited(environment: MutableMapping[str, str]) -> Listeners | None:
    """Return the inherited sockets, None without any. Remove their variables. Raises ServeError."""
    text = environment.pop(VARIABLE, None)
    systemd = {name: environment.pop(name) for name in _SYSTEMD_VARIABLES if name in environment}
    if text is not None:
        description = msgspec.json.decode(text, type=_Description)
        return Listeners(
            http=_adopt(description.http),
            metrics=_adopt(description.metrics),
            is_activated=description.is_activated,
            address=description.address,
            metrics_address=description.metrics_address,
        )
    if systemd.get("LISTEN_PID") != str(os.getpid()):
        return None  # the variables belong to another process, which has not removed them
    return _take_from_systemd(systemd)


def _take_from_systemd(variables: Mapping[str, str]) -> Listeners | None:
    count = int(variables.get("LISTEN_FDS") or 0)
    if not count:
        return None
    names = variables.get("LISTEN_FDNAMES", "").split(":")
    names += [""] * (count - len(names))
    numbers = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + count)
    http = [number for number, name in zip(numbers, names, strict=False) if name != METRICS_NAME]
    metrics = [number for number, name in zip(numbers, names, strict=False) if name == METRICS_NAME]
    if not http:
        raise ServeError(
            f"all sockets from systemd are named '{METRICS_NAME}'. Add a socket unit without FileDescriptorName={METRICS_NAME}."
        )
    return Listeners(http=_adopt(http), metrics=_adopt(metrics), is_activated=True)


def _adopt(descriptors: Iterable[int]) -> tuple[socket.socket, ...]:
    adopted: list[socket.socket] = []
    for number in descriptors:
        try:
            os.set_inheritable(number, False)
            listener = socket.socket(fileno=number)
            is_listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError as error:
            raise ServeError(
                f"the inherited descriptor {number} is no socket: {error.strerror}. Check the socket unit."
            ) from error
        if listener.type != socket.SOCK_STREAM or not is_listening:
            raise ServeError(
                f"the inherited descriptor {number} does not listen for streams. "
                "Use ListenStream= and Accept=no in the socket unit."
            )
        listener.setblocking(False)
        adopted.append(listener)
    return tuple(adopted)


def open_listeners(server: ServerConfig, inherited: Listeners | None) -> Listeners:
    """Return the sockets for the addresses in conf: inherited ones where they fit, else new ones. Raises ServeError.

    Inherited sockets that do not fit are closed. Sockets of systemd always fit.
    """
    address, metrics_address = (server.host, server.port), (server.metrics_host, server.metrics_port)
    is_activated = inherited is not None and inherited.is_activated
    http, metrics = (inherited.http, inherited.metrics) if inherited else ((), ())
    if inherited and not is_activated:
        http = _keep(http, fits=inherited.address == address)
    keeps_metrics = inherited is not None and (is_activated or inherited.metrics_address == metrics_address)
    metrics = _keep(metrics, fits=keeps_metrics)
    if not metrics and server.metrics_port is not None:
        metrics = _bind(server.metrics_host, server.metrics_port, "metrics_port")
    return Listeners(
        http=http or _bind(server.host, server.port, "port"),
        metrics=metrics,
        is_activated=is_activated,
        address=address,
        metrics_address=metrics_address,
    )


def _keep(sockets: tuple[socket.socket, ...], *, fits: bool) -> tuple[socket.socket, ...]:
    if fits:
        return sockets
    for listener in sockets:
        listener.close()
    return ()


def _bind(host: str, port: int, key: str) -> tuple[socket.socket, ...]:
    is_main = key == "port"
    option = "--port or server.port" if is_main else f"server.{key}"
    try:
        return tuple(bind_sockets(port, host))
    except OSError as error:
        advice = f"Choose another port with {option} in conf, or stop the process that uses it."
        if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            option = "--host or server.host" if is_main else "server.metrics_host"
            advice = f"It is no address of this machine. Choose another one with {option} in conf."
        raise ServeError(f"cannot listen on {host}:{port}: {error.strerror or error}. {advice}") from error


LOOPBACK_OF_ALL: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""By an address for all interfaces, which no browser opens everywhere: the address at which this machine reaches it."""


def format_address(server: ServerConfig, listeners: Listeners) -> str:
    """Return the base URL of the first socket, for people: a loopback address if it listens on all interfaces."""
    first = listeners.http[0]
    name: Any = first.getsockname()
    if first.family == socket.AF_UNIX:
        return f"{server.scheme}://localhost (on the Unix socket {os.fsdecode(name)})"
    host = _get_name(first)[0] if listeners.is_activated else server.host or "127.0.0.1"
    host = LOOPBACK_OF_ALL.get(host, host)
    return f"{server.scheme}://{f'[{host}]' if ':' in host else host}:{name[1]}"
