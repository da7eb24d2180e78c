"""The imitation: ``POST /v1/messages`` and ``/v1/messages/count_tokens``.

Headers: anthropic-python 2.11, _client.py, and platform.claude.com/docs/en/api/versioning (read 2026-11-22). ``temperature``,
``top_p`` and ``top_k`` are not in the SDK's types any more; models before 4.7 accept them with API versions before 2026-10-21.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, get_args

from anthropic.types import anthropic_beta_param, message_count_tokens_params, message_create_params
from anthropic.types.beta import message_count_tokens_params as beta_count_params
from anthropic.types.beta import message_create_params as beta_create_params

from qa.imitations.anthropic.answers import make_answer, make_events
from qa.imitations.anthropic.conversation import check_conversation
from qa.imitations.anthropic.models import find_model
from qa.imitations.anthropic.refusal import Refusal, refuse
from qa.imitations.anthropic.settings import check_settings
from qa.imitations.anthropic.thinking import CONTROLS, Ledger
from qa.imitations.anthropic.typed_dicts import check
from qa.imitations.calling.plans import select_plan
from qa.imitations.calling.server import Received, Response

KEY: Final = "key-of-the-imitation"
_VERSIONS: Final = ("2023-01-01", "2023-06-01", "2026-10-21")
_HEADER_MEMBERS: Final = ("betas", "workspace_id", "user_profile_id")
"""Parameters of the SDK that it sends as headers."""
_SAMPLING: Final[Mapping[str, Any]] = {"temperature": float, "top_p": float, "top_k": int}


class MessagesApi:
    """Answers requests as the vendor does."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._serial = 0

    def answer(self, received: Received) -> Response:
        """The response to one request."""
        try:
            body, ignored = self._check(received)
        except Refusal as refusal:
            return _make_error(str(refusal))
        if received.path.startswith("/v1/messages/count_tokens"):
            return Response(200, "application/json", (b'{"input_tokens": 14}',), said={"input_tokens": 14})
        model = find_model(body["model"])
        self._serial += 1
        said = make_answer(body, model, select_plan(json.dumps(body["messages"])), self._serial)
        self._ledger.issue(body, said, self._serial)
        if CONTROLS in received.headers.get("anthropic-beta", ""):
            said["input_transformations"] = ignored
        if body.get("stream"):
            return Response(200, "text/event-stream; charset=utf-8", tuple(make_events(said)), said=said)
        return Response(200, "application/json", (json.dumps(said).encode(),), said=said)

    def _check(self, received: Received) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """The body, and the thinking blocks that are ignored."""
        betas = _check_headers(received.headers)
        try:
            body = received.body
        except ValueError:
            refuse("The request body is not valid JSON")
        for name in _HEADER_MEMBERS:
            if name in body:
                refuse(f"{name}: Extra inputs are not permitted")
        counts = received.path.startswith("/v1/messages/count_tokens")
        sampling = _take_sampling(body, received.headers["anthropic-version"], counts)
        check(
            {name: body[name] for name in body if name not in {*sampling, "stream"}},
            _choose_shape(bool(betas), counts),
            "",
        )
        for name, value in sampling.items():
            check(value, _SAMPLING[name], name)
        if "stream" in body and not counts:
            check(body["stream"], bool, "stream")
        model = find_model(body["model"])
        check_conversation(body, model)
        check_settings({"max_tokens": 0, **body}, model)
        if "block_binding" in (body.get("thinking") or {}) and CONTROLS not in betas:
            refuse("thinking.adaptive.block_binding: Extra inputs are not permitted")
        return dict(body), self._ledger.check(body, model)


def _check_headers(headers: Mapping[str, str]) -> list[str]:
    """The betas of the request."""
    if headers.get("x-api-key") != KEY:
        refuse("invalid x-api-key")
    if headers.get("anthropic-version") not in _VERSIONS:
        refuse(f'anthropic-version: "{headers.get("anthropic-version")}" is not a valid version.')
    if not headers.get("content-type", "").startswith("application/json"):
        refuse("content-type: must be application/json")
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",") if beta.strip()]
    known = {word for arm in get_args(anthropic_beta_param.AnthropicBetaParam) for word in get_args(arm)}
    for beta in betas:
        if known and beta not in known:
            refuse(f"Unexpected value(s) `{beta}` for the `anthropic-beta` header.")
    return betas


def _take_sampling(body: Any, version: str, counts: bool) -> dict[str, Any]:
    if not isinstance(body, dict) or counts or version == _VERSIONS[-1]:
        return {}
    return {name: body[name] for name in _SAMPLING if body.get(name) is not None}


def _choose_shape(beta: bool, counts: bool) -> Any:
    if counts:
        return (
            beta_count_params.MessageCountTokensParams if beta else message_count_tokens_params.MessageCountTokensParams
        )
    return beta_create_params.MessageCreateParamsBase if beta else message_create_params.MessageCreateParamsBase


def _make_error(message: str) -> Response:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}
    return Response(400, "application/json", (json.dumps(body).encode(),), refused=message)
