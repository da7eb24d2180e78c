"""What the decision of a guard does, and which guards cover a request."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tornado_gate import guard_impl, types
from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import BlockedByGuard, NotReviewed, PluginUnavailable, UnknownModel
from tornado_gate.guards.decisions import NO_MAP, Guards, Review, apply_decision, begin_session_review
from tornado_gate.guards.inner_texts import RequestTexts
from tornado_gate.pipeline.reviews import begin_review
from tornado_gate.plugins.guard_lanes import GuardFailed, GuardLane
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.wrappers import Scope
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Block, Caller, GuardedText, Replace, Span
from tornado_gate.types.text_maps import OTHER, TextMap

TEXTS = [
    GuardedText(kind="user", path="messages.0.content", text="0123456789"),
    GuardedText(kind="assistant", path="choices.0.message.content", text="0123456789", sent=4, is_complete=False),
    GuardedText(kind="reasoning", path="content.0.thinking", text="0123456789", is_fixed=True),
]
ANN = Caller(id="conf:ann", account="ann", name="ann")


class Silent:
    @guard_impl
    def review_request(self) -> types.Decision:
        return None


def make_guard(implementation: type = Silent, **options: Any) -> GuardLane:
    host, given = PluginHost(), PluginOptions(**options)
    host.add("guard", implementation)
    return GuardLane(host, host.configure("guard", given, Scope(given)))


def replace(*spans: tuple[int, int, int]) -> Replace:
    return Replace(spans=tuple(Span(text, start, end, "*") for text, start, end in spans))


def test_a_decision_is_applied_or_refused() -> None:
    guard = make_guard()
    assert apply_decision(guard, None, TEXTS) == ("allow", ())
    assert apply_decision(guard, replace(), TEXTS) == ("allow", [])
    found = apply_decision(guard, replace((1, 4, 6), (0, 8, 10), (0, 1, 3)), TEXTS)
    assert found == ("replace", [Span(0, 1, 3, "*"), Span(0, 8, 10, "*"), Span(1, 4, 6, "*")])
    for spans in ([(3, 0, 1)], [(-1, 0, 1)], [(0, 4, 11)], [(0, 5, 4)], [(0, -1, 2)], [(0, 0, 3), (0, 2, 4)]):
        with pytest.raises(GuardFailed):
            apply_decision(guard, replace(*spans), TEXTS)
    with pytest.raises(GuardFailed):
        apply_decision(guard, Block(message="no", status=200), TEXTS)


def test_what_cannot_be_replaced_must_not_pass() -> None:
    guard = make_guard()
    for span, reason in (((2, 1, 3), "cannot be changed"), ((1, 3, 6), "was already sent")):
        with pytest.raises(BlockedByGuard, match=reason) as blocked:
            apply_decision(guard, replace(span), TEXTS)
        assert (blocked.value.status, blocked.value.code) == (400, "blocked_by_guard")
    with pytest.raises(BlockedByGuard, match="no") as blocked:
        apply_decision(guard, Block(message="no", status=451, code="law"), TEXTS)
    assert blocked.value.body() == {"message": "no", "type": "invalid_request_error", "param": "", "code": "law"}
    assert (blocked.value.status, blocked.value.retryable) == (451, False)


def test_a_request_whose_model_is_not_known_is_covered() -> None:
    of_gpt, of_chat, of_ann = make_guard(models=("gpt-*",)), make_guard(operations=("chat",)), make_guard(keys=("ann",))
    guards = Guards([of_gpt, of_chat, of_ann])
    call = types.Call(id="r", operation="chat", format="plain", caller=ANN)
    assert guards.select(call, ("chat",)) == (of_gpt, of_chat, of_ann)
    assert guards.select(call.replace(model="other"), ("images", "chat")) == (of_chat, of_ann)
    assert guards.select(call.replace(caller=Caller(id="b", account="b", name="bob")), ("images",)) == (of_gpt,)


def test_a_guard_that_cannot_see_the_answer_of_an_inner_model_refuses_the_call_or_logs_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Both(Silent):
        @guard_impl
        def review_response(self) -> types.Decision:
            return None

    outer = types.Call(id="r", operation="realtime", format="plain", model="voice", caller=ANN)
    inner = outer.replace(operation="chat", model="gpt-4o")
    of_all = make_guard(Both, required=True)
    assert Guards([of_all]).select_for_inner_call(outer, inner) == ((of_all,), [])
    of_requests = make_guard(required=True, models=("gpt-*",))
    assert Guards([of_requests]).select_for_inner_call(outer, inner) == ((of_requests,), [])
    with pytest.raises(PluginUnavailable):
        Guards([make_guard(Both, required=True, models=("gpt-*",))]).select_for_inner_call(outer, inner)
    optional = make_guard(Both, models=("gpt-*",))
    guards = Guards([optional])
    for _ in range(2):
        assert guards.select_for_inner_call(outer, inner) == ((optional,), [optional])
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "'guard' cannot see what the model 'voice' receives from the model 'gpt-4o'" in line


def test_every_text_of_a_request_between_models_can_be_replaced() -> None:
    parts = (types.Text(text="one"), types.Image(source=types.Link(url="https://example.com/none")))
    call = types.ToolCall(id="none", name="two", arguments='{"a": "three"}')
    request = types.ChatRequest(
        model="none",
        messages=(
            types.Message(role="user", parts=parts),
            types.Message(role="assistant", parts=(types.Thinking(text="four"), call)),
            types.Message(role="tool", parts=(types.ToolResult(call_id="none", parts=(types.Text(text="five"),)),)),
        ),
        tools=(types.Tool(name="two", parameters={"properties": {"a": {"description": "six"}}}),),
        extra={"new": ["seven"]},
    )
    view = RequestTexts(request)
    kinds = [(text.kind, text.text) for text in view.texts]
    assert kinds == [
        ("user", "one"), ("user", "https://example.com/none"), ("reasoning", "four"),
        ("tool_call", "two"), ("tool_call", '{"a": "three"}'),
        ("tool_result", "five"), ("other", "two"), ("other", "six"), ("other", "seven"),
    ]  # fmt: skip
    spans = [Span(number, 1, 3, "__") for number in range(len(kinds))]
    again = RequestTexts(view.apply(spans))
    assert [text.text for text in again.texts] == [text[0] + "__" + text[3:] for _, text in kinds]
    assert again.apply([]) == view.apply(spans)
    assert request.messages[0].parts == parts


class Models:
    """The models that a request may name."""

    def find_model(self, name: str, caller: Caller) -> None:
        if name == "unknown":
            raise UnknownModel(name)


SERVICES = cast(Any, SimpleNamespace(metrics=Metrics()))
"""What a review that begins needs of the process."""


def begin(route: types.Route, *lanes: GuardLane, model: str = "m", strict: bool = False) -> Review | None:
    wire = types.WireRequest(
        route=route, path=route.path, path_arguments={}, query={}, headers={}, raw=b"{}", json={"model": model}
    )
    call = types.Call(id="r", operation=route.operation, format="plain", caller=ANN, strict=strict)
    snapshot = SimpleNamespace(guards=Guards(lanes), targets=Models(), config=SimpleNamespace(defaults={}))
    return begin_review(cast(Any, SimpleNamespace(guarding=SERVICES)), cast(Any, snapshot), call, wire)


def test_a_route_whose_texts_are_not_known_is_closed_by_a_required_guard_only(caplog: pytest.LogCaptureFixture) -> None:
    route = types.Route("POST", "/plain", "chat")
    with pytest.raises(PluginUnavailable):
        begin(route, make_guard(required=True))
    assert begin(route, make_guard(required=True, models=("other",))) is None
    caplog.clear()
    review = begin(route, make_guard())
    assert review is not None
    assert (review.guards, review.losses) == ([], ["guard:guard"])
    assert "cannot see the texts of /plain" in caplog.text
    with pytest.raises(NotReviewed) as refused:
        begin(route, make_guard(), strict=True)
    assert (refused.value.status, refused.value.param) == (400, "guard:guard")
    assert begin(types.Route("GET", "/plain/models", "models", model="none"), make_guard(required=True)) is None
    known = types.replace(route, texts=NO_MAP)
    review = begin(known, make_guard(required=True))
    assert review is not None
    assert review.call.model == "m"
    with pytest.raises(UnknownModel):
        begin(known, make_guard(required=True), model="unknown")


def test_a_session_whose_messages_are_not_known_is_closed_by_a_required_guard_only() -> None:
    route = types.Route("GET", "/plain", "realtime", socket=True, texts=NO_MAP)
    call = types.Call(id="r", operation="realtime", format="plain", model="m", caller=ANN)

    def begin_session(lane: GuardLane, texts: TextMap = NO_MAP) -> Review | None:
        served = types.replace(route, texts=texts)
        return begin_session_review(SERVICES, Guards([lane]), call, served)

    with pytest.raises(PluginUnavailable):
        begin_session(make_guard(required=True))
    review = begin_session(make_guard())
    assert review is not None
    assert (review.guards, review.losses) == ([], ["guard:guard"])
    assert begin_session(make_guard(required=True, operations=("chat",))) is None
    both = TextMap(client_message=OTHER, server_message=OTHER)
    assert begin_session(make_guard(required=True), both) is not None
