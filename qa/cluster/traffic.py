"""The load on a cluster while its nodes come and go."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx

from qa.cluster.nodes import Cluster, send
from tests.support.gateway import Gateway

Request = Callable[[Gateway], int]
"""Send a request to a node, and return its status."""


class Traffic:
    """Requests at all nodes in turn, as from a load balancer that leaves out nodes whose `/readyz` is not 200.

    The kinds of requests take turns too.
    """

    def __init__(self, cluster: Cluster, *requests: Request) -> None:
        self._cluster, self._requests = cluster, requests
        self._ends = threading.Event()
        self._counted = threading.Condition()
        self.statuses: list[int] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            for first in itertools.count(0, 4):
                if self._ends.is_set():
                    return
                statuses = list(pool.map(self._ask, range(first, first + 4)))
                with self._counted:
                    self.statuses += statuses
                    self._counted.notify_all()

    def _ask(self, turn: int) -> int:
        names = sorted(self._cluster.nodes)
        request = self._requests[turn // len(names) % len(self._requests)]
        for offset in range(len(names)):
            node = self._cluster.nodes[names[(turn + offset) % len(names)]]
            if _is_ready(node):
                return request(node)
        return 0

    def wait_for_more(self, count: int, seconds: float = 120.0) -> None:
        """Wait until `count` further requests have ended."""
        with self._counted:
            goal = len(self.statuses) + count
            assert self._counted.wait_for(lambda: len(self.statuses) >= goal, seconds), "the requests do not end"

    def stop(self) -> list[int]:
        """End the load, and return the statuses of all requests; 0 means that no node was there."""
        self._ends.set()
        self._thread.join()
        return self.statuses


def _is_ready(node: Gateway) -> bool:
    try:
        return send(node, "GET", "/readyz").status_code == 200
    except httpx.TransportError:
        return False
