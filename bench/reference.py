"""The fixed measure of the regression guard: a small relay of Tornado and aiohttp. FROZEN: never change this file.

Usage: python -m bench.reference PORT UPSTREAM_PORT. It parses the body, picks the upstream by the model's name, forwards, and
passes the answer on as it comes; for POST /v1/messages it asks for a chat and makes an Anthropic message of it (whole only). Our
cost is given as a multiple of its cost, measured by turns on the same machine, so that machines can be compared.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from typing import Any

import aiohttp
import orjson
import tornado.httpserver
import tornado.web


class Relay(tornado.web.RequestHandler):
    """POST /v1/chat/completions and the like: the upstream's answer, chunk by chunk."""

    def initialize(self, session: aiohttp.ClientSession, upstreams: dict[str, str]) -> None:
        self.session, self.upstreams = session, upstreams

    def parsed(self) -> dict[str, Any]:
        body = orjson.loads(self.request.body)
        if not isinstance(body, dict) or body.get("model") not in self.upstreams:
            raise tornado.web.HTTPError(404)
        return body

    def ask(self, path: str, body: bytes, model: str) -> Any:
        headers = {"Authorization": "Bearer bench-key", "Content-Type": "application/json"}
        return self.session.post(self.upstreams[model] + path, data=body, headers=headers)

    async def post(self) -> None:
        body = self.parsed()
        async with self.ask(self.request.path, orjson.dumps(body), body["model"]) as answer:
            self.set_status(answer.status)
            self.set_header("Content-Type", answer.headers["Content-Type"])
            if not body.get("stream"):
                self.finish(await answer.read())
                return
            async for chunk in answer.content.iter_any():
                self.write(chunk)
                await self.flush()


class Messages(Relay):
    """POST /v1/messages, whole: Anthropic's format outside, OpenAI's inside."""

    async def post(self) -> None:
        body = self.parsed()
        asked = {"model": body["model"], "messages": body["messages"], "max_tokens": body["max_tokens"]}
        async with self.ask("/v1/chat/completions", orjson.dumps(asked), body["model"]) as answer:
            found = orjson.loads(await answer.read())
        message, usage = found["choices"][0]["message"], found["usage"]
        self.set_header("Content-Type", "application/json")
        self.finish(
            json.dumps(
                {
                    "id": found["id"],
                    "type": "message",
                    "role": "assistant",
                    "model": found["model"],
                    "content": [{"type": "text", "text": message["content"]}],
                    "stop_reason": "end_turn",
                    "usage": {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]},
                }
            )
        )


async def main(port: int, upstream: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        given = {"session": session, "upstreams": {"mocked": f"http://127.0.0.1:{upstream}"}}
        routes = [("/v1/messages", Messages, given), ("/v1/.*", Relay, given)]
        server = tornado.httpserver.HTTPServer(tornado.web.Application(routes), max_buffer_size=64 * 1024 * 1024)
        server.listen(port, "127.0.0.1", backlog=8192)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
