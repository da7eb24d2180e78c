"""Questions about tasks: which path reaches which route, and what a query may say."""

from __future__ import annotations

from typing import Any

import pytest
from format_openai_calls import call_for
from operation_calls import done, make_response, wire_of

from tornado_gate.errors import GateError, InvalidField, MethodNotAllowed, NotFound
from tornado_gate.targets.routing import RouteTable, ServedRoute
from tornado_gate.types import TaskRequest, VerbatimRequest, VideoRequest, WireRequest, replace
from tornado_gate_openai.format import videos

OTHER_PREFIX = tuple(
    replace(route, path=route.path.replace("/vendor/", "/kling/", 1))
    for route in videos.ROUTES
    if route.path.startswith("/vendor/")
)
TABLE = RouteTable([ServedRoute("o", route) for route in (*videos.ROUTES, *OTHER_PREFIX)])
BODY = {"model": "m", "prompt": "p", "image": "https://example.com/a.png"}


def wire_at(method: str, path: str, query: dict[str, str] | None = None, body: Any = None) -> WireRequest:
    """A request as the core makes it of a method and a path."""
    found = TABLE.match(method, path, {}, query or {})
    wire = wire_of(found.served.route, body or {}, **found.arguments)
    return replace(wire, path=path, query=query or {})


def read_request(method: str, path: str, body: Any = None, **query: str) -> TaskRequest | VideoRequest:
    request = done(videos.parse(call_for(), wire_at(method, path, query, body)))
    assert isinstance(request, TaskRequest | VideoRequest)
    return request


def task(method: str, path: str, body: Any = None, **query: str) -> TaskRequest:
    request = read_request(method, path, body, **query)
    assert isinstance(request, TaskRequest)
    return request


def catch_refusal(path: str, **query: str) -> str:
    with pytest.raises(InvalidField) as caught:
        task("GET", path, **query)
    assert caught.value.status == 400
    return caught.value.param


@pytest.mark.parametrize(
    ("method", "path", "action", "task_id"),
    [
        ("GET", "/v1/videos/video_1", "show", "video_1"),
        ("GET", "/v1/videos/video_1/", "show", "video_1"),
        ("GET", "/v1/video/generations/video_1", "show", "video_1"),
        ("GET", "/v1/videos/video_1/content", "content", "video_1"),
        ("GET", "/v1/videos/video_1/content/", "content", "video_1"),
        ("HEAD", "/v1/videos/video_1/content", "content", "video_1"),
        ("GET", "/v1/videos/video_1/events", "events", "video_1"),
        ("POST", "/v1/videos/video_1/remix", "remix", "video_1"),
        ("DELETE", "/v1/videos/video_1", "delete", "video_1"),
        ("GET", "/v1/videos", "list", ""),
        ("GET", "/v1/videos/", "list", ""),
        ("GET", "/vendor/v1/videos/text2video/video_1", "show", "video_1"),
        ("GET", "/vendor/v1/videos/image2video/video_1/", "show", "video_1"),
        ("GET", "/kling/v1/videos/image2video/video_1", "show", "video_1"),
        ("GET", "/v1/videos/content", "show", "content"),
        ("GET", "/v1/videos/a%2Fcontent", "show", "a/content"),
        ("GET", "/v1/videos/..%2f..%2fetc/content", "content", "../../etc"),
    ],
)
def test_a_path_reaches_its_own_route(method: str, path: str, action: str, task_id: str) -> None:
    request = task(method, path, {"prompt": "p"})
    assert (request.action, request.task_id) == (action, task_id)
    assert request.stream == (action == "events")


@pytest.mark.parametrize(
    ("path", "wire_format"),
    [
        ("/v1/videos", "openai-videos"),
        ("/v1/videos/", "openai-videos"),
        ("/v1/video/generations", "openai-videos"),
        ("/vendor/v1/videos/text2video", "prefixed-videos"),
        ("/vendor/v1/videos/image2video/", "prefixed-videos"),
        ("/kling/v1/videos/image2video", "prefixed-videos"),
    ],
)
def test_a_path_that_begins_a_video_reaches_its_own_route(path: str, wire_format: str) -> None:
    request = read_request("POST", path, BODY)
    assert isinstance(request, VideoRequest)
    assert request.wire_format == wire_format


@pytest.mark.parametrize("path", ["/vendor/v1/videos/image2video", "/kling/v1/videos/image2video"])
def test_image_to_video_needs_its_picture_under_every_prefix(path: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read_request("POST", path, {"model": "m", "prompt": "p"})
    assert caught.value.param == "image"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/videos/video_1", "DELETE, GET, HEAD"),
        ("POST", "/v1/videos/video_1/content", "GET, HEAD"),
        ("DELETE", "/v1/videos", "GET, HEAD, POST"),
        ("GET", "/v1/video/generations", "POST"),
        ("GET", "/vendor/v1/videos/text2video", "POST"),
        ("POST", "/vendor/v1/videos/text2video/video_1", "GET, HEAD"),
    ],
)
def test_another_method_is_told_which_there_are(method: str, path: str, allow: str) -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        wire_at(method, path)
    assert caught.value.headers["Allow"] == allow


@pytest.mark.parametrize(
    "path", ["/vendor/v1/videos/video2video", "/vendor/v1/videos", "/v1/video", "/v1/video/video_1"]
)
def test_other_paths_are_none(path: str) -> None:
    with pytest.raises(NotFound):
        wire_at("GET", path)


def test_every_route_is_of_the_operation_and_questions_name_no_model() -> None:
    assert {route.operation for route in videos.ROUTES} == {"videos"}
    assert all((route.model == "body") == (route.method == "POST" and "{" not in route.path) for route in videos.ROUTES)


def test_nothing_goes_up_as_it_came() -> None:
    wire = wire_at("POST", "/v1/videos", body=BODY)
    assert videos.forward(call_for(), wire) is None
    verbatim = VerbatimRequest(wire_format="openai-videos", operation="videos", path=wire.path, raw=b"", body={})
    with pytest.raises(GateError):
        videos.forward_response(call_for(), verbatim, make_response(b"{}"))


POLLS = ["/v1/videos/t", "/v1/video/generations/t", "/vendor/v1/videos/text2video/t"]


@pytest.mark.parametrize("path", POLLS)
@pytest.mark.parametrize(("text", "seconds"), [("0", 0.0), ("60", 60.0), ("2.5", 2.5), ("60.0", 60.0)])
def test_a_poll_may_wait(path: str, text: str, seconds: float) -> None:
    assert task("GET", path, wait=text).wait == seconds
    assert task("GET", path).wait == 0.0


@pytest.mark.parametrize("path", POLLS)
@pytest.mark.parametrize("text", ["", "-1", "60.1", "61", "nan", "inf", "1e1", "five", "٥", " 5", "true", "9" * 400])
def test_a_wrong_wait_is_named(path: str, text: str) -> None:
    assert catch_refusal(path, wait=text) == "wait"


def test_a_download_names_the_video_that_it_wants() -> None:
    path = "/v1/videos/t/content"
    assert task("GET", path).index == 0
    assert task("GET", path, variant="video", index="3").index == 3
    for text in ("", "-1", "1.0", "x", "٣", "12345"):
        assert catch_refusal(path, index=text) == "index"
    for text in ("thumbnail", "spritesheet", "", "VIDEO", "gif"):
        assert catch_refusal(path, variant=text) == "variant"


def test_a_list_is_bounded_and_ordered() -> None:
    usual = task("GET", "/v1/videos")
    assert (usual.after, usual.limit, usual.order) == ("", 20, "desc")
    other = task("GET", "/v1/videos", after="video_9", limit="100", order="asc")
    assert (other.after, other.limit, other.order) == ("video_9", 100, "asc")
    assert task("GET", "/v1/videos", limit="1").limit == 1
    for text in ("", "0", "101", "-1", "1.0", "ten", "٥"):
        assert catch_refusal("/v1/videos", limit=text) == "limit"
    for text in ("", "ASC", "newest"):
        assert catch_refusal("/v1/videos", order=text) == "order"
