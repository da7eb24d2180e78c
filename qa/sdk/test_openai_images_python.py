"""openai-python against the gateway: pictures made, streamed, edited and varied, each of them decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from qa.sdk import media_gateway
from qa.sdk.media_answers import file, image_stream, images, make_answer
from qa.sdk.media_files import RED, data_url, decoded, form_in, least_alpha, mask_file, picture_file
from qa.sdk.media_gateway import KEY, get, post
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

media = media_gateway.media

CAT = "A red cat on a blue chair"
FIRST, SECOND, LAST = (picture_file((8, 8), (shade, 0, 0)) for shade in (10, 20, 30))


@pytest.fixture(scope="module")
def client(media: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{media.url}/v1", api_key=KEY, max_retries=0, timeout=20) as client:
        yield client


def url_of(image: Any) -> str:
    """The address of a picture that is nowhere else."""
    assert image.b64_json is None
    assert isinstance(image.url, str)
    return image.url


# Made here


@pytest.mark.parametrize(
    ("model", "size", "n"),
    [("local-image-1", "256x256", 3), ("local-image-2", "1792x1024", 1), ("local-image-3", "1024x1536", 2)],
)
def test_each_family_makes_pictures_of_the_asked_size(client: openai.OpenAI, model: str, size: Any, n: int) -> None:
    result = client.images.generate(model=model, prompt=CAT, size=size, n=n, response_format="url")
    assert result.created > 1_700_000_000
    assert result.data
    assert len(result.data) == n
    files = [get(url_of(image)).body for image in result.data]
    width, height = map(int, size.split("x"))
    assert [(picture.format, *picture.size) for picture in map(decoded, files)] == [("PNG", width, height)] * n
    assert len(set(files)) == n
    assert result.usage
    assert result.usage.total_tokens == result.usage.input_tokens + result.usage.output_tokens > 0
    assert result.usage.input_tokens_details.image_tokens == 0


def test_default_model_is_the_first_family_unless_only_the_third_can_do_it(client: openai.OpenAI) -> None:
    plain = client.images.with_raw_response.generate(prompt=CAT, size="256x256")
    assert plain.headers["x-gate-model"] == "local-image-1"
    wide = client.images.with_raw_response.generate(prompt=CAT, background="transparent")
    assert wide.headers["x-gate-model"] == "local-image-3"


def test_third_family_answers_the_sdk_with_bytes_as_the_vendor_does(client: openai.OpenAI) -> None:
    result = client.images.generate(model="local-image-3", prompt=CAT, size="1024x1024")
    assert result.data
    assert result.data[0].url is None
    assert decoded(result.data[0].b64_json).size == (1024, 1024)
    assert (result.output_format, result.size, result.background) == ("png", "1024x1024", "opaque")


@pytest.mark.parametrize("model", ["local-image-1", "local-image-3"])
def test_bytes_come_inside_the_answer_when_asked_for(client: openai.OpenAI, model: str) -> None:
    result = client.images.generate(model=model, prompt=CAT, size="1024x1024", response_format="b64_json")
    assert result.data
    assert result.data[0].url is None
    assert decoded(result.data[0].b64_json).format == "PNG"


@pytest.mark.parametrize(
    ("kind", "background", "lowest"),
    [("png", "transparent", 0), ("webp", "transparent", 0), ("webp", "opaque", 255), ("jpeg", "auto", 255)],
)
def test_picture_is_of_the_asked_kind_and_transparent_where_asked(
    client: openai.OpenAI, kind: Any, background: Any, lowest: int
) -> None:
    result = client.images.generate(model="local-image-3", prompt=CAT, output_format=kind, background=background)
    assert result.data
    picture = decoded(result.data[0].b64_json)
    assert (picture.format, least_alpha(picture)) == (kind.upper(), lowest)
    assert picture.convert("RGBA").getchannel("A").getextrema()[1] == 255
    assert result.output_format == kind


def test_lower_quality_of_a_jpeg_makes_it_smaller(client: openai.OpenAI) -> None:
    def made(compression: int) -> str:
        result = client.images.generate(
            model="local-image-3", prompt=CAT, output_format="jpeg", output_compression=compression
        )
        assert result.data
        return result.data[0].b64_json or ""

    assert 0 < len(made(10)) < len(made(95))


def test_address_needs_no_key_and_is_served_safely(client: openai.OpenAI, media: Gateway) -> None:
    result = client.images.generate(model="local-image-1", prompt=CAT, size="256x256")
    assert result.data
    url = url_of(result.data[0])
    assert url.startswith(f"{media.url}/media/")
    whole = get(url)
    assert (whole.status, whole.headers["content-type"]) == (200, "image/png")
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["cache-control"].startswith("private, max-age=")
    assert int(whole.headers["content-length"]) == len(whole.body)
    unchanged = get(url, If_None_Match=whole.headers["etag"])
    assert (unchanged.status, unchanged.body) == (304, b"")
    part = get(url, Range="bytes=8-15")
    assert (part.status, part.body) == (206, whole.body[8:16])
    assert part.headers["content-range"] == f"bytes 8-15/{len(whole.body)}"
    forged = url[:-4] + ("0000" if not url.endswith("0000") else "1111")
    assert get(forged).status in (403, 404)


def test_embedded_model_streams_the_finished_picture_only(client: openai.OpenAI) -> None:
    raw = client.images.with_raw_response.generate(
        model="local-image-3", prompt=CAT, stream=True, partial_images=2, size="1024x1024"
    )
    assert raw.headers["x-gate-loss"] == "partial_images"
    (event,) = list(raw.parse())
    assert event.type == "image_generation.completed"
    assert decoded(event.b64_json).size == (1024, 1024)
    assert (event.size, event.output_format) == ("1024x1024", "png")
    assert event.usage.output_tokens > 0


def test_pictures_come_to_an_asynchronous_client(media: Gateway) -> None:
    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{media.url}/v1", api_key=KEY, max_retries=0) as client:
            asked = (client.images.generate(prompt=word, size="256x256") for word in ("cat", "dog"))
            return [url_of(result.data[0]) for result in await asyncio.gather(*asked) if result.data]

    assert len({get(url).body for url in asyncio.run(ask())}) == 2


# Made by an upstream


def test_upstreams_picture_is_handed_out_by_an_address_of_the_gateway(
    client: openai.OpenAI, media: Gateway, upstream: Upstream
) -> None:
    upstream.script(images(FIRST, SECOND))
    result = client.images.generate(model="scripted/dall-e-2", prompt=CAT, n=2, size="256x256")
    assert result.data
    urls = [url_of(image) for image in result.data]
    assert all(url.startswith(f"{media.url}/media/") for url in urls)
    assert [get(url).body for url in urls] == [FIRST, SECOND]
    asked = {"model": "dall-e-2", "prompt": CAT, "n": 2, "size": "256x256", "response_format": "b64_json"}
    assert upstream.requests[0].json == asked


def test_address_of_an_upstream_is_never_handed_on(client: openai.OpenAI, media: Gateway, upstream: Upstream) -> None:
    data = [{"url": f"{upstream.url}/made.png", "revised_prompt": "A fine cat"}]
    upstream.script(file(LAST, "image/png", path="/made.png"), make_answer({"created": 1, "data": data}))
    result = client.images.generate(model="scripted/dall-e-3", prompt=CAT)
    assert result.data
    assert result.data[0].revised_prompt == "A fine cat"
    url = url_of(result.data[0])
    assert url.startswith(f"{media.url}/media/")
    assert get(url).body == LAST


def test_unfinished_pictures_stream_before_the_finished_one(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(image_stream([FIRST, SECOND], LAST))
    asked: dict[str, Any] = {"model": "scripted/gpt-image-1", "prompt": CAT, "stream": True, "partial_images": 2}
    events: list[Any] = list(client.images.generate(**asked))
    kind = "image_generation"
    assert [event.type for event in events] == [f"{kind}.partial_image"] * 2 + [f"{kind}.completed"]
    assert [event.partial_image_index for event in events[:-1]] == [0, 1]
    assert [decoded(event.b64_json).getpixel((0, 0)) for event in events] == [(10, 0, 0), (20, 0, 0), (30, 0, 0)]
    assert events[-1].usage.total_tokens == 30
    assert upstream.requests[0].json == {**asked, "model": "gpt-image-1"}


# Edited


@pytest.mark.parametrize("count", [1, 3])
def test_edit_keeps_the_size_and_changes_the_picture(client: openai.OpenAI, count: int) -> None:
    pictures = [("one.png", picture_file((96, 64), (40 * index + 40, 90, 20)), "image/png") for index in range(count)]
    given: Any = pictures[0] if count == 1 else pictures
    result = client.images.edit(model="local-image-edit", image=given, prompt="Put a hat on it")
    assert result.data
    picture = decoded(get(url_of(result.data[0])).body)
    assert (picture.format, picture.size) == ("PNG", (96, 64))
    before = decoded(pictures[0][1])
    assert picture.convert("RGB").tobytes() != before.tobytes()


def test_what_the_mask_hides_stays(client: openai.OpenAI) -> None:
    result = client.images.edit(
        model="local-image-edit",
        image=("one.png", picture_file((64, 64))),
        mask=("mask.png", mask_file((64, 64))),
        prompt="Paint it green",
        response_format="b64_json",
    )
    assert result.data
    picture = decoded(result.data[0].b64_json).convert("RGB")
    assert picture.crop((32, 0, 64, 64)).getcolors() == [(32 * 64, RED)]
    assert picture.crop((0, 0, 32, 64)).getcolors() != [(32 * 64, RED)]


def test_form_of_an_edit_arrives_whole(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(images(LAST))
    first, second, mask = picture_file((64, 64)), picture_file((32, 32), kind="WEBP"), mask_file((64, 64))
    result = client.images.edit(
        model="scripted/gpt-image-1",
        image=[("a.png", first), ("b.webp", second)],
        mask=("mask.png", mask),
        prompt=CAT,
        n=2,
        input_fidelity="high",
    )
    assert result.data
    assert decoded(result.data[0].b64_json).getpixel((0, 0)) == (30, 0, 0)
    (request,) = upstream.requests
    form = form_in(request)
    assert request.path == "/v1/images/edits"
    assert form.texts == {"model": "gpt-image-1", "prompt": CAT, "n": "2", "input_fidelity": "high"}
    assert [(one.name, one.filename, one.media_type, one.data) for one in form.files] == [
        ("image[]", "a.png", "image/png", first),
        ("image[]", "b.webp", "image/webp", second),
        ("mask", "mask.png", "image/png", mask),
    ]


def test_edit_streams_unfinished_pictures(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(image_stream([FIRST], LAST, "image_edit"))
    events = list(
        client.images.edit(
            model="scripted/gpt-image-1", image=("a.png", FIRST), prompt=CAT, stream=True, partial_images=1
        )
    )
    assert [event.type for event in events] == ["image_edit.partial_image", "image_edit.completed"]
    assert form_in(upstream.requests[0]).texts["partial_images"] == "1"


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
@pytest.mark.parametrize("wanted", ["url", "b64_json"])
def test_variations_of_a_picture_are_the_upstreams(client: openai.OpenAI, upstream: Upstream, wanted: Any) -> None:
    upstream.script(images(FIRST, SECOND))
    result = client.images.create_variation(
        model="scripted/dall-e-2", image=("a.png", LAST), n=2, size="256x256", response_format=wanted
    )
    assert result.data
    if wanted == "url":
        assert [get(url_of(image)).body for image in result.data] == [FIRST, SECOND]
    else:
        assert [decoded(image.b64_json).getpixel((0, 0)) for image in result.data] == [(10, 0, 0), (20, 0, 0)]
    (request,) = upstream.requests
    form = form_in(request)
    assert request.path == "/v1/images/variations"
    assert form.texts == {"model": "dall-e-2", "n": "2", "size": "256x256", "response_format": "b64_json"}
    assert [(one.name, one.data) for one in form.files] == [("image", LAST)]


def test_bad_input_is_the_error_that_the_sdk_knows(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.images.generate(model="local-image-2", prompt=CAT, n=2)
    assert (caught.value.param, caught.value.type) == ("n", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as unable:
        client.images.edit(model="local-tts", image=("a.png", FIRST), prompt=CAT)
    assert (unable.value.param, unable.value.code) == ("model", "operation_not_supported")


@pytest.mark.parametrize("place", ["address", "data"])
def test_edit_in_json_reads_the_picture_where_it_is(media: Gateway, upstream: Upstream, place: str) -> None:
    """The contract's shape, whose answer has no usage."""
    before = picture_file((80, 48))
    upstream.script(file(before, "image/png", path="/before.png"))
    image = f"{upstream.url}/before.png" if place == "address" else data_url(before)
    body = {
        "model": "local-image-edit",
        "input": {"messages": [{"role": "user", "content": [{"image": image}, {"text": "Add a hat"}]}]},
        "parameters": {"n": 2, "watermark": False},
    }
    got = post(media, "/v1/images/edits", body)
    assert (got.status, set(got.json)) == (200, {"created", "data"})
    assert [set(image) for image in got.json["data"]] == [{"url"}] * 2
    pictures = [decoded(get(image["url"]).body) for image in got.json["data"]]
    assert [picture.size for picture in pictures] == [(80, 48)] * 2
    assert all(picture.convert("RGB").tobytes() != decoded(before).tobytes() for picture in pictures)
    assert [request.path for request in upstream.requests] == (["/before.png"] if place == "address" else [])
