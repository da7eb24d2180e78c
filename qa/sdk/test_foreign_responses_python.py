"""An account cannot see, continue, delete or learn of the responses of another that an upstream keeps, on any route."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from tests.support import stored_responses
from tests.support.gateway import Gateway
from tests.support.stored_responses import KEYS, message, refer, response, send
from tests.support.upstream import Upstream, answer

gateway = stored_responses.gateway
owner = stored_responses.owner


def in_input(item: dict[str, Any]) -> dict[str, Any]:
    return refer(input=[{"role": "user", "content": "Hi"}, item])


def in_tool(**tool: Any) -> dict[str, Any]:
    return refer(tools=[tool])


def in_chat(part: dict[str, Any]) -> dict[str, Any]:
    return {"model": "one", "messages": [{"role": "user", "content": [part]}]}


BODIES: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "previous_response_id": ("/responses", lambda name: refer(previous_response_id=f"resp_{name}")),
    "item_reference": ("/responses", lambda name: in_input({"type": "item_reference", "id": f"msg_{name}"})),
    "item_reference_without_type": ("/responses", lambda name: in_input({"id": f"msg_{name}"})),
    "reasoning": ("/responses", lambda name: in_input({"type": "reasoning", "id": f"rs_{name}", "summary": []})),
    "image": ("/responses", lambda name: in_input({"type": "image_generation_call", "id": f"ig_{name}"})),
    "conversation": ("/responses", lambda name: refer(conversation=f"conv_{name}")),
    "conversation_object": ("/responses", lambda name: refer(conversation={"id": f"conv_{name}"})),
    "prompt": ("/responses", lambda name: refer(prompt={"id": f"pmpt_{name}"})),
    "prompt_variable": (
        "/responses",
        lambda name: refer(prompt={"id": "", "variables": {"f": {"type": "input_file", "file_id": f"file-{name}"}}}),
    ),
    "input_file": (
        "/responses",
        lambda name: in_input({"role": "user", "content": [{"type": "input_file", "file_id": f"file-{name}"}]}),
    ),
    "input_image": (
        "/responses",
        lambda name: in_input({"role": "user", "content": [{"type": "input_image", "file_id": f"file-{name}"}]}),
    ),
    "tool_output": (
        "/responses",
        lambda name: in_input(
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_file", "file_id": f"file-{name}"}],
            }
        ),
    ),
    "file_search": ("/responses", lambda name: in_tool(type="file_search", vector_store_ids=[f"vs_{name}"])),
    "container": ("/responses", lambda name: in_tool(type="code_interpreter", container=f"cntr_{name}")),
    "container_files": (
        "/responses",
        lambda name: in_tool(type="code_interpreter", container={"type": "auto", "file_ids": [f"file-{name}"]}),
    ),
    "mask": ("/responses", lambda name: in_tool(type="image_generation", input_image_mask={"file_id": f"file-{name}"})),
    "shell": (
        "/responses",
        lambda name: in_tool(type="shell", environment={"type": "container_reference", "container_id": f"cntr_{name}"}),
    ),
    "skill": (
        "/responses",
        lambda name: in_tool(
            type="shell",
            environment={
                "type": "container_auto",
                "skills": [{"type": "skill_reference", "skill_id": f"skill_{name}"}],
            },
        ),
    ),
    "chat_file": ("/chat/completions", lambda name: in_chat({"type": "file", "file": {"file_id": f"file-{name}"}})),
    "chat_audio": (
        "/chat/completions",
        lambda name: {"model": "one", "messages": [{"role": "assistant", "audio": {"id": f"audio_{name}"}}]},
    ),
    "image_edit": (
        "/images/edits",
        lambda name: {"model": "one", "prompt": "x", "images": [{"file_id": f"file-{name}"}]},
    ),
}
ROUTES: dict[str, tuple[str, str]] = {
    "retrieve": ("GET", "/responses/resp_{}"),
    "stream": ("GET", "/responses/resp_{}?stream=true"),
    "input_items": ("GET", "/responses/resp_{}/input_items"),
    "cancel": ("POST", "/responses/resp_{}/cancel"),
    "delete": ("DELETE", "/responses/resp_{}"),
}
SECRET = "owned"
UNKNOWN = "nixda"  # of the same length


@pytest.fixture
def owned(owner: openai.OpenAI, upstream: Upstream) -> str:
    """The name in the ids of a response that account A owns, with every kind of object."""
    items = (
        message(f"msg_{SECRET}", "the secret of A"),
        {"type": "reasoning", "id": f"rs_{SECRET}", "summary": []},
        {"type": "image_generation_call", "id": f"ig_{SECRET}", "status": "completed", "result": "aGk="},
        {
            "type": "code_interpreter_call",
            "id": f"ci_{SECRET}",
            "container_id": f"cntr_{SECRET}",
            "status": "completed",
        },
    )
    upstream.script(answer(json.dumps(response(SECRET, *items))))
    assert owner.responses.create(model="one", input="Hi").id == f"resp_{SECRET}"
    upstream.reset()
    return SECRET


def visible(found: httpx2.Response, name: str) -> tuple[int, dict[str, str], str]:
    """All that a caller sees of a response, with the name in its ids replaced."""
    headers = {key: value for key, value in found.headers.items() if key != "date"}
    return found.status_code, headers, found.text.replace(name, "NAME")


@pytest.mark.parametrize("case", BODIES)
def test_stranger_cannot_tell_an_owned_id_from_an_unknown_one(
    gateway: Gateway, upstream: Upstream, owned: str, case: str
) -> None:
    path, render = BODIES[case]
    theirs = send(gateway, "b", "POST", path, render(owned))
    nobodys = send(gateway, "b", "POST", path, render(UNKNOWN))
    assert visible(theirs, owned) == visible(nobodys, UNKNOWN)
    assert theirs.status_code in (400, 404)
    assert theirs.json()["error"]["code"].endswith(("_not_found", "_not_supported"))
    assert upstream.requests == []


@pytest.mark.parametrize("case", ROUTES)
def test_stranger_cannot_reach_a_stored_response(gateway: Gateway, upstream: Upstream, owned: str, case: str) -> None:
    method, path = ROUTES[case]
    theirs, nobodys = (send(gateway, "b", method, path.format(name)) for name in (owned, UNKNOWN))
    assert visible(theirs, owned) == visible(nobodys, UNKNOWN)
    assert theirs.status_code == 404
    assert upstream.requests == []
    upstream.script(answer(json.dumps(response(owned))))
    assert send(gateway, "a", "GET", f"/responses/resp_{owned}").status_code == 200  # it is still there


@pytest.mark.parametrize("case", ["previous_response_id", "item_reference", "reasoning", "image", "container"])
def test_owner_may_use_every_object_of_the_response(
    gateway: Gateway, upstream: Upstream, owned: str, case: str
) -> None:
    path, render = BODIES[case]
    upstream.script(answer(json.dumps(response("mine"))))
    assert send(gateway, "a", "POST", path, render(owned)).status_code == 200
    assert upstream.requests[0].json == render(owned)


def test_an_id_is_refused_before_the_vendors_error_says_more(gateway: Gateway) -> None:
    error = send(gateway, "b", "POST", "/responses", refer(previous_response_id="resp_x")).json()["error"]
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")


@pytest.mark.parametrize("name", ["previous\\u005fresponse\\u005fid", "previous_response_id"])
def test_an_escaped_name_is_no_way_around(gateway: Gateway, upstream: Upstream, owned: str, name: str) -> None:
    raw = b'{"model": "one", "input": "Hi", "%b": "resp_%b"}' % (name.encode(), owned.encode())
    headers = {"authorization": f"Bearer {KEYS['b']}", "content-type": "application/json"}
    found = httpx2.post(f"{gateway.url}/v1/responses", content=raw, headers=headers, timeout=20)
    assert found.json()["error"]["code"] == "previous_response_not_found"
    assert upstream.requests == []


def test_shared_objects_may_be_named_by_everyone(gateway: Gateway, upstream: Upstream) -> None:
    for case, (path, render) in BODIES.items():
        if path == "/responses":
            upstream.reset()
            upstream.script(answer(json.dumps(response("of-shared"))))
            body = {**render(UNKNOWN), "model": "shared"}
            assert send(gateway, "b", "POST", path, body).status_code == 200, case
            assert upstream.requests[0].json == body
