"""Pictures on the wire: base64, whole answers, usage, streams."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate import sse
from tornado_gate.errors import GateError, UpstreamError, UpstreamRateLimited, UpstreamRefused
from tornado_gate.testing import iterate
from tornado_gate.types import GeneratedImage, ImageRequest, ImageResult, PartialImage, StreamError, StreamEvent, Usage
from tornado_gate_openai.wire.images import (
    decode,
    encode,
    parse_response,
    parse_stream,
    parse_usage,
    render_response,
    render_stream,
    render_usage,
)

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8\xff\xe0"
ASKED = ImageRequest(model="m", prompt="p")
COUNTED = {
    "total_tokens": 15,
    "input_tokens": 10,
    "output_tokens": 5,
    "input_tokens_details": {"text_tokens": 6, "image_tokens": 4},
}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def parsed(body: Any, **rest: Any) -> ImageResult:
    return asyncio.run(parse_response(body, **rest))


def rendered(result: ImageResult, **rest: Any) -> Any:
    options = {"created": 9, "save_image": None, "usage": result.usage, "details": True, **rest}
    return orjson.loads(asyncio.run(render_response(result, **options)))


# Base64


@given(st.binary())
def test_bytes_survive_base64(data: bytes) -> None:
    assert asyncio.run(encode(data)) == base64.b64encode(data)
    if data:
        assert asyncio.run(decode(b64(data))) == data


@pytest.mark.parametrize("size", [3 * 256 * 1024 - 1, 3 * 256 * 1024, 3 * 256 * 1024 + 1, 5_000_000])
def test_slices_fit_together(size: int) -> None:
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    text = asyncio.run(encode(data))
    assert text == base64.b64encode(data)
    assert asyncio.run(decode(text.decode())) == data


def test_the_loop_turns_between_slices() -> None:
    async def run() -> int:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(turn())
        await decode((await encode(bytes(8_000_000))).decode())
        ticking.cancel()
        return turns

    assert asyncio.run(run()) > 15


@pytest.mark.parametrize(
    "text", [b64(PNG), b64(PNG).rstrip("="), f"data:image/png;base64,{b64(PNG)}", f"{b64(PNG)[:4]}\r\n{b64(PNG)[4:]}"]
)
def test_what_upstreams_do_to_base64_is_forgiven(text: str) -> None:
    assert asyncio.run(decode(text)) == PNG


@pytest.mark.parametrize("text", ["", "data:image/png;base64,", "no base64!", "é", "a", "AA==AAAA"])
def test_what_is_no_base64_is_the_upstreams_fault(text: str) -> None:
    with pytest.raises(UpstreamError):
        asyncio.run(decode(text))


# Whole answers


IMAGES = st.builds(
    GeneratedImage,
    data=st.binary(max_size=50).map(lambda data: PNG + data),
    media_type=st.just("image/png"),
    revised_prompt=st.none() | st.text(min_size=1, max_size=5),
)
RESULTS = st.builds(
    ImageResult,
    images=st.lists(IMAGES, min_size=1, max_size=3).map(tuple),
    created=st.none() | st.integers(1, 2**40),
    usage=st.none()
    | st.builds(
        Usage, input_tokens=st.integers(5, 99), output_tokens=st.integers(0, 9), image_tokens=st.integers(0, 5)
    ),
    background=st.none() | st.just("opaque"),
    output_format=st.none() | st.just("png"),
    quality=st.none() | st.just("high"),
    size=st.none() | st.just("8x8"),
    extra=st.just({}) | st.just({"safety_identifier": "x"}),
)


@given(RESULTS)
def test_an_answer_survives_the_wire(result: ImageResult) -> None:
    back = parsed(rendered(result))
    assert back.created == (result.created or 9)
    assert (back.images, back.usage, back.extra) == (result.images, result.usage, result.extra)
    assert (back.background, back.output_format, back.quality, back.size) == (
        result.background,
        result.output_format,
        result.quality,
        result.size,
    )


def test_an_answer_by_address_holds_no_bytes() -> None:
    async def place(image: GeneratedImage, index: int) -> str:
        return f"https://x/{index}/{len(image.data)}"

    image = GeneratedImage(data=PNG, media_type="image/png", revised_prompt='"')
    result = ImageResult(images=(image, image), quality="auto", text="words")
    assert rendered(result, save_image=place) == {
        "created": 9,
        "data": [{"url": f"https://x/{index}/8", "revised_prompt": '"'} for index in range(2)],
    }


@pytest.mark.parametrize(
    ("data", "said", "media_type"),
    [
        (PNG, "webp", "image/png"),
        (JPEG, None, "image/jpeg"),
        (b"<svg/>", "svg", "image/svg+xml"),
        (b"unknown", "webp", "image/webp"),
        (b"unknown", None, "image/png"),
    ],
)
def test_what_a_picture_is_counts_for_more_than_what_it_is_called(data: bytes, said: Any, media_type: str) -> None:
    (image,) = parsed({"data": [{"b64_json": b64(data)}], "output_format": said}).images
    assert (image.data, image.media_type) == (data, media_type)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"data": None},
        {"data": []},
        {"data": ["x"]},
        {"data": [{}]},
        {"data": [{"b64_json": ""}]},
        {"data": [{"b64_json": 1}]},
        {"data": [{"b64_json": "*"}]},
        {"data": [{"b64_json": b64(b"%PDF-1.7")}]},
        {"data": [{"url": "https://x/y"}]},
    ],
)
def test_an_answer_without_pictures_is_the_upstreams_fault(body: Any) -> None:
    with pytest.raises(UpstreamError) as caught:
        parsed(body)
    assert caught.value.status == 502


def test_an_error_with_status_200_is_an_error() -> None:
    with pytest.raises(UpstreamRefused, match="not safe"):
        parsed({"error": {"message": "not safe", "code": 400}})


def test_pictures_at_addresses_are_fetched_by_who_may() -> None:
    async def fetch(url: str) -> bytes:
        return {"https://x/y": JPEG}[url]

    body = {"created": True, "data": [{"url": "https://x/y"}, {"url": f"data:image/png;base64,{b64(PNG)}"}]}
    result = parsed(body, fetch=fetch)
    assert [image.media_type for image in result.images] == ["image/jpeg", "image/png"]
    assert result.created is None


# Usage


def test_usage_is_read_and_written() -> None:
    usage = Usage(input_tokens=10, output_tokens=5, image_tokens=4)
    assert (parse_usage(COUNTED), render_usage(usage)) == (usage, COUNTED)


def test_what_the_vendor_counts_beside_comes_back() -> None:
    value = {
        **COUNTED,
        "total_tokens": 20,
        "input_tokens_details": {"text_tokens": 6, "image_tokens": 4, "cached_tokens": 2, "x": 1},
        "output_tokens_details": {"image_tokens": 5, "text_tokens": 0},
    }
    usage = parse_usage(value)
    assert usage is not None
    assert usage.cache_read_tokens == 2
    assert render_usage(usage) == value


@pytest.mark.parametrize("value", [None, 1, {}, {"input_tokens": "5"}, {"input_tokens": True}, {"total_tokens": 1}])
def test_what_counts_nothing_is_no_usage(value: Any) -> None:
    assert parse_usage(value) is None


def test_what_was_not_reported_is_zero() -> None:
    assert render_usage(Usage()) == {
        "total_tokens": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "input_tokens_details": {"text_tokens": 0, "image_tokens": 0},
    }


# Streams


def events_of(*frames: Any) -> list[StreamEvent]:
    async def run() -> list[StreamEvent]:
        return [event async for event in parse_stream(iterate(frames))]

    return asyncio.run(run())


def frames_of(*events: StreamEvent, asked: ImageRequest = ASKED) -> list[Any]:
    async def run() -> list[Any]:
        chunks = render_stream(iterate(events), what="image_generation", asked=asked, created=9)
        return [value async for value in sse.read_json_frames(chunks)]

    return asyncio.run(run())


def frame(kind: str, data: bytes = PNG, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "b64_json": b64(data), **fields}


@pytest.mark.parametrize("what", ["image_generation", "image_edit"])
def test_frames_are_events(what: str) -> None:
    described: dict[str, Any] = {
        "created_at": 7,
        "background": "auto",
        "output_format": "png",
        "quality": "high",
        "size": "8x8",
    }
    first, last = events_of(
        frame(f"{what}.partial_image", JPEG, partial_image_index=1, **described),
        {"type": f"{what}.something_new"},
        None,
        frame(f"{what}.completed", usage=COUNTED, **described),
    )
    assert first == PartialImage(index=1, data=JPEG, media_type="image/jpeg")
    assert last == ImageResult(
        images=(GeneratedImage(data=PNG, media_type="image/png"),),
        created=7,
        usage=Usage(input_tokens=10, output_tokens=5, image_tokens=4),
        output_format="png",
        quality="high",
        size="8x8",
    )


@given(st.lists(st.binary(max_size=9), max_size=3), st.lists(st.binary(max_size=9), min_size=1, max_size=3))
def test_a_stream_survives_the_wire(unfinished: Sequence[bytes], finished: Sequence[bytes]) -> None:
    events: list[StreamEvent] = [
        PartialImage(index=index, data=PNG + data, media_type="image/png") for index, data in enumerate(unfinished)
    ]
    events.append(
        ImageResult(
            images=tuple(GeneratedImage(data=PNG + data, media_type="image/png") for data in finished),
            created=7,
            usage=Usage(input_tokens=10, output_tokens=5, image_tokens=4),
            output_format="png",
        )
    )
    assert events_of(*frames_of(*events)) == events


def test_what_was_asked_for_stands_in_for_what_is_not_said() -> None:
    asked = ImageRequest(model="m", prompt="p", size="1024x1024", quality="low", background="opaque")
    (completed,) = frames_of(ImageResult(images=(GeneratedImage(data=JPEG, media_type="image/jpeg"),)), asked=asked)
    assert completed == {
        "type": "image_generation.completed",
        "b64_json": b64(JPEG),
        "created_at": 9,
        "background": "opaque",
        "quality": "low",
        "size": "1024x1024",
        "output_format": "jpeg",
        "usage": render_usage(Usage()),
    }


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "error": {"message": "slow down", "type": "rate_limit_error"}},
        {"type": "error", "message": "slow down", "code": 429},
        {"error": {"message": "slow down", "status": 429}},
    ],
)
def test_an_error_ends_a_stream(error: Any) -> None:
    partial, failure = events_of(frame("image_generation.partial_image"), error, frame("image_generation.completed"))
    assert isinstance(partial, PartialImage)
    assert isinstance(failure, StreamError)
    assert (type(failure.error), failure.error.message) == (UpstreamRateLimited, "slow down")


@pytest.mark.parametrize("frames", [[], [frame("image_generation.partial_image")], [{"type": "x.completed"}]])
def test_a_stream_without_a_finished_picture_is_the_upstreams_fault(frames: Any) -> None:
    with pytest.raises(UpstreamError):
        events_of(*frames)


def test_an_error_event_is_raised_by_who_writes_the_stream() -> None:
    error = UpstreamError("broken")
    with pytest.raises(GateError) as caught:
        frames_of(StreamError(error=error))
    assert caught.value is error
