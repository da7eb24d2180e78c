"""The mock upstreams: one server with the APIs of all vendors. The program behind `upstream.MockUpstream`.

``/__control`` is for the runner: it sets what is run, and returns what was seen. Every other path belongs to a vendor.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from dataclasses import dataclass, field
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from qa.agents.conversation import Asked, RefusedError, Turn
from qa.agents.scenarios import SCENARIOS, Fault, answer, answer_side_call
from qa.agents.vendors import anthropic, chat, gemini, responses

UPSTREAM_KEY = "upstream-key-of-the-agent-tests"
COUNTED = 321
"""Tokens that each token count of an upstream returns."""
THINKING = {
    anthropic: lambda text, signature: f"anthropic {signature} {text}",
    responses: lambda text, signature: f"openai {signature} {text}",
    gemini: lambda text, signature: signature,
    chat: lambda text, signature: text,
}


@dataclass
class State:
    """The current run, and what it has shown: faults, and all requests."""

    scenario: str = "chat"
    folder: str = ""
    faults: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)


def find_vendor(path: str) -> Any:
    """The module of the vendor with this path, or None."""
    if path.endswith("/messages"):
        return anthropic
    if path.endswith("/chat/completions"):
        return chat
    if path.endswith("/responses"):
        return responses
    return gemini if ":generateContent" in path or ":streamGenerateContent" in path else None


class Vendor(RequestHandler):
    def initialize(self, state: State) -> None:
        self.state = state

    def post(self) -> None:
        self.record()
        path = self.request.path
        if path.endswith("/count_tokens"):
            return self.write({"input_tokens": COUNTED})
        if path.endswith(":countTokens"):
            return self.write({"totalTokens": COUNTED})
        vendor = find_vendor(path)
        if vendor is None:
            return self.refuse(chat, 404, f"unknown path {path}")
        try:
            asked: Asked = vendor.read(path, self.lowered(), json.loads(self.request.body))
            turn = self.think(vendor, asked)
        except RefusedError as refusal:
            return self.refuse(vendor, 400, str(refusal))
        except Exception:
            return self.refuse(vendor, 400, f"the mock failed: {traceback.format_exc()}")
        content_type, chunks = vendor.render(asked.model, turn, asked.stream)
        self.set_header("Content-Type", content_type)
        for chunk in chunks:
            self.write(chunk)
            self.flush()
        return None

    def get(self) -> None:
        self.record()
        self.refuse(chat, 404, f"unknown path GET {self.request.path}")

    head = get

    def lowered(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.request.headers.items()}

    def record(self) -> None:
        headers = self.lowered()
        text = self.request.body.decode(errors="replace")
        self.state.requests.append({"path": self.request.path, "headers": headers, "body": text})
        if not any(UPSTREAM_KEY in value for value in headers.values()):
            self.state.faults.append(f"{self.request.path}: the upstream's key is missing")

    def think(self, vendor: Any, asked: Asked) -> Turn:
        """The model's answer. A main conversation is one with tools and without a JSON schema."""
        conversation = asked.conversation
        scenario = SCENARIOS[self.state.scenario]
        is_main = conversation.tools and conversation.schema is None
        if not is_main or not any(prompt in text for prompt in scenario.prompts for text in conversation.user_texts):
            return answer_side_call(conversation)
        try:
            return answer(scenario, self.state.folder, conversation, THINKING[vendor])
        except Fault as fault:
            self.state.faults.append(str(fault))
            return Turn(f"FAULT: {fault}")

    def refuse(self, vendor: Any, status: int, message: str) -> None:
        self.state.faults.append(f"{status} {self.request.path}: {message}")
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(vendor.render_error(status, message))


class Control(RequestHandler):
    def initialize(self, state: State) -> None:
        self.state = state

    def post(self) -> None:
        order = json.loads(self.request.body)
        self.state.scenario, self.state.folder = order["scenario"], order["folder"]
        self.state.faults, self.state.requests = [], []
        self.write({})

    def get(self) -> None:
        self.write({"faults": self.state.faults, "requests": self.state.requests})


async def main() -> None:
    state = State()
    application = Application(
        [("/__control", Control, {"state": state}), (".*", Vendor, {"state": state})], log_function=lambda handler: None
    )
    (listening,) = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(application, max_buffer_size=1 << 28)
    server.add_socket(listening)
    print(f"upstream: serving http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
