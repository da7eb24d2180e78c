"""The imitated API: its routes, what it has issued, and what it said."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from qa.imitations.openai import chat_answers, response_answers
from qa.imitations.openai.chat_rules import check_chat
from qa.imitations.openai.model_replies import Said, reply
from qa.imitations.openai.refusals import Refusal
from qa.imitations.openai.response_rules import Issued, check_response, list_items
from tests.support.imitation_server import Answer, Request, answer_events, answer_json

PREFIX = "/v1"


@dataclass
class OpenAI:
    """One account. `said` has the last answer of every accepted request, in order."""

    issued: Issued = field(default_factory=Issued)
    said: list[Said] = field(default_factory=list)
    count: int = 0

    def __call__(self, request: Request) -> Answer:
        self.count += 1
        headers = {"x-request-id": f"req_{self.count:08x}", "openai-version": "2020-10-01"}
        try:
            return self._answer(request, headers)
        except Refusal as refusal:
            return answer_json(refusal.body(), refusal.status, headers)

    def _answer(self, request: Request, headers: dict[str, str]) -> Answer:
        if not request.headers.get("authorization", "").startswith("Bearer "):
            raise Refusal("You didn't provide an API key.", None, "invalid_api_key", status=401)
        try:
            body = request.json
        except ValueError:
            raise Refusal("We could not parse the JSON body of your request.", None) from None
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                return self._answer_chat(body, headers)
            case "POST", "/v1/responses":
                return self._answer_response(body, headers)
        raise Refusal(f"Invalid URL ({request.method} {request.path})", None, status=404)

    def _answer_chat(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        model = check_chat(body)
        said = reply(model, chat_answers.read_chat(body))
        self.said.append(said)
        if body.get("stream"):
            return answer_events(chat_answers.stream_chat(self.count, body, said), headers)
        return answer_json(chat_answers.render_chat(self.count, body, said), headers=headers)

    def _answer_response(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        model = check_response(body, self.issued)
        items = list_items(body, self.issued)
        said = reply(model, response_answers.read_response(body, items))
        self.said.append(said)
        output = response_answers.make_output(self.count, body, said, self.issued)
        whole = response_answers.render_response(self.count, body, said, output)
        self.issued.ids |= {item["id"] for item in output}
        if body.get("store") is not False:
            self.issued.responses[whole["id"]] = [*items, *json.loads(json.dumps(output))]
            self.issued.items |= {item["id"] for item in output}
        if body.get("stream"):
            return answer_events(response_answers.stream_response(whole, said), headers)
        return answer_json(whole, headers=headers)
