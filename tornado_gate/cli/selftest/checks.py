"""The checks of `selftest`, one row each: all examples of /openapi.json, files by their address, and a realtime session."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from tornado_gate.cli.selftest.examples import UNSUPPORTED_NEEDS, ExampleSender, NotCreated, describe_failure
from tornado_gate.cli.selftest.gateway import Answer, TemporaryGateway
from tornado_gate.types.value import Value

METHODS: Final = ("get", "post", "put", "patch", "delete")
SESSION_SECONDS: Final = 30.0
ADMIN: Final = "/admin/"
"""Routes that need no provider. The key of a first start may not use them."""


class Row(Value, frozen=True):
    """The result of one check. `failure` is "" for a success; `skipped` says why the check was not run."""

    method: str
    route: str
    example: str
    seconds: float = 0.0
    failure: str = ""
    skipped: str = ""

    @property
    def result(self) -> str:
        return f"FAILED {self.failure}" if self.failure else f"skipped: needs {self.skipped}" if self.skipped else "ok"


def run_checks(gateway: TemporaryGateway) -> Iterator[Row]:
    """Yield the result of each check."""
    described = gateway.send("GET", "/openapi.json")
    if described.status != 200:
        yield Row("GET", "/openapi.json", "", 0.0, describe_failure(described))
        return
    paths: dict[str, dict[str, Any]] = json.loads(described.body)["paths"]
    sender = ExampleSender(gateway)
    for path, item in paths.items():
        for method in METHODS if not path.startswith(ADMIN) else ():
            for example in item.get(method, {}).get("x-gate-examples", ()):
                yield _run_example(sender, path, item[method], example)
    yield _measure("GET", "/metrics", "", lambda: _check(gateway.send("GET", "/metrics"), ("text/plain",)))
    yield _measure("GET", "/media/{file_id}", "image", lambda: _fetch_image(gateway))
    yield _measure("GET", "/videos/{file_id}", "video", lambda: _fetch_video(gateway, sender))
    yield _measure("GET", "/v1/realtime", "session", lambda: asyncio.run(_hold_session(gateway)))


def _run_example(sender: ExampleSender, path: str, operation: dict[str, Any], example: dict[str, Any]) -> Row:
    if example["needs"] in UNSUPPORTED_NEEDS:
        return Row(example["method"], path, example["name"], skipped=example["needs"])
    expected = tuple(operation["responses"]["200"].get("content", {}))
    return _measure(example["method"], path, example["name"], lambda: _check(sender.send(example), expected))


def _measure(method: str, route: str, example: str, check: Callable[[], str]) -> Row:
    """Run a check, which returns what failed or ""."""
    started = time.monotonic()
    try:
        failure = check()
    except NotCreated as error:
        failure = str(error)
    return Row(method, route, example, time.monotonic() - started, failure)


def _check(answer: Answer, media_types: tuple[str, ...]) -> str:
    """Return what is wrong with a response: its status, its media type, or an error inside of a stream."""
    if answer.status != 200:
        return describe_failure(answer)
    if answer.body and answer.media_type not in media_types:
        return f"the response is {answer.media_type}, not {' or '.join(media_types) or 'empty'}"
    if answer.media_type == "application/json" and not _is_json(answer.body):
        return "the response is not valid JSON"
    if answer.media_type == "text/event-stream" and b"event: error" in answer.body:
        return "the stream ends with an error"
    return ""


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _fetch_image(gateway: TemporaryGateway) -> str:
    body = json.dumps({"model": "local-image-1", "prompt": "A square."}).encode()
    made = gateway.send("POST", "/v1/images/generations", None, body)
    if failure := _check(made, ("application/json",)):
        return failure
    file = gateway.send("GET", json.loads(made.body)["data"][0]["url"])
    return _check(file, ("image/png", "image/webp", "image/jpeg"))


def _fetch_video(gateway: TemporaryGateway, sender: ExampleSender) -> str:
    task = sender.make_task("text")
    polled = gateway.send("GET", f"/vendor/v1/videos/text2video/{task}")
    if failure := _check(polled, ("application/json",)):
        return failure
    file = gateway.send("GET", json.loads(polled.body)["videos"][0]["url"])
    return _check(file, ("video/mp4",)) or ("" if file.body[4:8] == b"ftyp" else "the file is no MP4")


async def _hold_session(gateway: TemporaryGateway) -> str:
    """Open a realtime session, ask for a response and wait for its end. Return what failed, or ""."""
    import aiohttp

    address = f"{gateway.url.replace('http', 'ws', 1)}/v1/realtime?model=local-realtime"
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]}
    try:
        async with (
            asyncio.timeout(SESSION_SECONDS),
            aiohttp.ClientSession() as session,
            session.ws_connect(address, headers={"Authorization": f"Bearer {gateway.key}"}) as socket,
        ):
            await socket.send_json({"type": "conversation.item.create", "item": item})
            await socket.send_json({"type": "response.create"})
            async for message in socket:
                event = json.loads(message.data)
                if event["type"] == "error":
                    return str(event["error"].get("message"))
                if event["type"] == "response.done":
                    return ""
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "the session was closed before the response"
