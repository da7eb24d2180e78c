"""What all callers of a soak test share: a pool of connections, a journal, and how the end of a request is judged."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from bench.soak.formats import SDK_HEADERS, ErrorAnswer, check_error
from bench.soak.records import Broken, Journal, Mismatch, Mixed, Request
from bench.soak.sdks import Clients
from bench.soak.site import BARE, KEY, SMART
from bench.soak.words import make_nonce

ANSWER_SECONDS = 90.0
"""A request without an answer for so long is lost: more than the gateway's time limits of all targets together."""
BEARER = {"Authorization": f"Bearer {KEY}"}
Act = Callable[["Callers", Request], Awaitable[None]]


class Callers:
    """Callers of one gateway. They share a pool of connections, as an application's workers do."""

    def __init__(self, url: str, journal: Journal, told: Path, seed: int, cookie: str = "") -> None:
        self.journal = journal
        self.cookie = cookie
        self.random = random.Random(seed)
        self._url = url
        self._told = told
        self.sdks = Clients.connect(url)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
            trust_env=False,
            auto_decompress=True,
        )

    async def close(self) -> None:
        await self.sdks.close()
        await self._session.close()

    async def call(self, kind: str, model: str, act: Act) -> Request:
        """Make one request and judge its end."""
        request = self.journal.begin(kind, model, make_nonce())
        try:
            await act(self, request)
            request.outcome = "right"
        except ErrorAnswer as error:
            self._judge_error(request, error)
        except Left:
            request.outcome = "left"
        except Mixed as error:
            request.outcome, request.detail = "MIXED", str(error)
        except Mismatch as error:
            request.outcome, request.detail = "WRONG", str(error)
        except (Broken, aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            request.outcome, request.detail = "LOST", f"{type(error).__name__}: {error}"
        except (KeyError, IndexError, TypeError, ValueError) as error:
            request.outcome, request.detail = "WRONG", f"another shape: {error!r}"
        finally:
            request.ended = time.time()
        return request

    def _judge_error(self, request: Request, error: ErrorAnswer) -> None:
        """An error is right where the upstream may fail: never from steady models."""
        is_allowed = request.model.startswith((BARE, SMART)) or request.model == "film"
        request.outcome = "error" if is_allowed else "WRONG"
        request.status, request.detail = error.status, error.message

    async def find_faults(self, nonce: str) -> tuple[str, ...]:
        """The faults that the upstream had for a nonce."""
        text = await asyncio.to_thread(self._told.read_text, encoding="ascii")
        return tuple(line.partition(" ")[2] for line in text.splitlines() if line.startswith(nonce))

    async def count_tasks(self) -> int:
        """The tasks of the gateway's event loops, as /metrics says; 0 while it is away."""
        try:
            async with self._session.get(self._url + "/metrics") as answer:
                text = await answer.text()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return 0
        found = re.search(r"^tornado_gate_event_loop_tasks ([0-9.e+]+)$", text, re.M)
        return int(float(found[1])) if found else 0

    def send(self, request: Request, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The context of an answer, with the request's id."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        head = {"Content-Type": "application/json"} if data is not None else {}
        head |= {"x-request-id": request.id, **headers}
        return self._session.request(method, self._url + path, data=data, headers=head, allow_redirects=False)

    def connect(self, request: Request, path: str, key: str = KEY) -> Any:
        head = {"x-request-id": request.id, "Authorization": f"Bearer {key}", "User-Agent": "OpenAI/Python 3.52.0"}
        return self._session.ws_connect(self._url.replace("http", "ws", 1) + path, headers=head)


class Left(Exception):
    """The caller closed the connection on purpose."""


async def ask(callers: Callers, request: Request, way: str, path: str, body: Any) -> bytes:
    """The body of a whole answer. Raises ErrorAnswer."""
    async with callers.send(request, "POST", path, body, **SDK_HEADERS[way]) as answer:
        request.status = answer.status
        data: bytes = await answer.read()
        if answer.status != 200:
            raise check_error(way, answer.status, answer.headers.get("content-type", ""), data)
        if answer.headers.get("x-request-id") != request.id:
            raise Mixed(f"the answer to {request.id} has the id {answer.headers.get('x-request-id')}")
        return data
