"""Bad input over HTTP beyond chat: each rule by its status, its field and its code; and nothing reaches an upstream."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from qa.sdk import media_gateway
from qa.sdk.media_answers import images, make_answer
from qa.sdk.media_files import data_url, picture_file, sound_file
from qa.sdk.media_gateway import KEY, Got, post
from tests.support.gateway import Gateway
from tests.support.upstream import Answer, Upstream, answer

media = media_gateway.media

EMBEDDINGS, MODERATIONS, SPEECH = "/v1/embeddings", "/v1/moderations", "/v1/audio/speech"
IMAGES, EDITS, VARIATIONS = "/v1/images/generations", "/v1/images/edits", "/v1/images/variations"
TRANSCRIPTIONS = "/v1/audio/transcriptions"
ONE, TWO, THREE = (f"local-image-{number}" for number in (1, 2, 3))
PICTURE = picture_file((64, 64))
LIMIT, UPLOAD_LIMIT = 2000, 4000

Case = tuple[str, Mapping[str, Any], str]


def made(model: str | None, param: str, **rest: Any) -> Case:
    """A picture asked for with a prompt."""
    named = {} if model is None else {"model": model}
    return IMAGES, {**named, "prompt": "A cat", **rest}, param


def tongyi(param: str, content: Any = ({"text": "A cat"},), path: str = IMAGES, **parameters: Any) -> Case:
    """A picture asked for with input and parameters."""
    message = {"role": "user", "content": list(content)}
    body = {"model": "local-image-edit", "input": {"messages": [message]}, "parameters": parameters}
    return path, body, param


def spoken(param: str, **rest: Any) -> Case:
    return SPEECH, {"model": "local-tts", "input": "Hi", "voice": "alloy", **rest}, param


def embedded(param: str, **rest: Any) -> Case:
    return EMBEDDINGS, {"model": "local-embed", "input": "Hi", **rest}, param


FAMILIES = [
    made(ONE, "prompt", prompt="é" * 1001),
    made(TWO, "prompt", prompt="é" * 4001),
    made(THREE, "prompt", prompt="é" * 32_001),
    made(ONE, "prompt", prompt=""),
    made(ONE, "prompt", prompt=None),
    made(ONE, "prompt", prompt=7),
    made(ONE, "n", n=0),
    made(ONE, "n", n=11),
    made(ONE, "n", n=-1),
    made(ONE, "n", n=True),
    made(ONE, "n", n=1.5),
    made(ONE, "n", n="5"),
    made(TWO, "n", n=2),
    made(THREE, "n", n=11),
    made(ONE, "size", size="1536x1024"),
    made(ONE, "size", size="auto"),
    made(ONE, "size", size="257x257"),
    made(TWO, "size", size="256x256"),
    made(TWO, "size", size="1536x1024"),
    made(THREE, "size", size="512x512"),
    made(THREE, "size", size="1792x1024"),
    made(THREE, "size", size="1024*1024"),
    made(THREE, "size", size=1024),
    made(ONE, "background", background="opaque"),
    made(TWO, "background", background="auto"),
    made(THREE, "background", background="pink"),
    made(THREE, "background", background="transparent", output_format="jpeg"),
    made(ONE, "moderation", moderation="low"),
    made(TWO, "moderation", moderation="auto"),
    made(THREE, "moderation", moderation="high"),
    made(ONE, "output_format", output_format="webp"),
    made(THREE, "output_format", output_format="bmp"),
    made(THREE, "output_compression", output_format="png", output_compression=50),
    made(THREE, "output_compression", output_format="webp", output_compression=101),
    made(ONE, "quality", quality="high"),
    made(TWO, "quality", quality="low"),
    made(THREE, "style", style="vivid"),
    made(TWO, "style", style="baroque"),
    made(THREE, "stream", stream="yes"),
    made(THREE, "stream", stream=1),
    made(THREE, "partial_images", stream=True, partial_images=4),
    made(THREE, "partial_images", partial_images=2),
    made(ONE, "response_format", response_format="b64"),
    made(ONE, "user", user=7),
    made(None, "size", size="100x100"),
    made(None, "n", n=11, background="opaque"),
]
TONGYI = [
    (IMAGES, {"model": THREE, "input": {}}, "input.messages"),
    (IMAGES, {"model": THREE, "parameters": {"size": "1024*1024"}}, "input"),
    (IMAGES, {"model": THREE, "input": "A cat"}, "input"),
    (IMAGES, {"model": THREE, "input": {"messages": []}}, "input.messages"),
    (IMAGES, {"model": THREE, "input": {"messages": [{"role": "user"}]}}, "input.messages.0.content"),
    (IMAGES, {"model": THREE, "input": {"messages": [{"content": [{"text": "A"}]}]}}, "input.messages.0.role"),
    tongyi("input.messages.0.content.0.text", [{"text": 7}]),
    tongyi("input.messages.0.content.0.text", [{"image": data_url(PICTURE)}]),
    tongyi("parameters.size", size="1024x1024"),
    tongyi("parameters.size", size="1024*"),
    tongyi("parameters.n", n=0),
    tongyi("parameters.n", n="2"),
    tongyi("parameters.watermark", watermark="yes"),
    tongyi("parameters.prompt_extend", prompt_extend=1),
    tongyi("parameters.negative_prompt", negative_prompt=["hats"]),
    tongyi("input.messages", [{"text": "Add a hat"}], EDITS),
    tongyi("input.messages", [{"image": data_url(PICTURE)}], EDITS),
    tongyi("input.messages.0.content.0.image", [{"image": "ftp://h.example/a"}, {"text": "A"}], EDITS),
    tongyi("parameters.n", [{"image": data_url(PICTURE)}, {"text": "A"}], EDITS, n=True),
    (EDITS, {"model": "local-image-edit"}, "input"),
    (EDITS, {"model": "local-image-edit", "prompt": "A"}, "images"),
]
OTHERS = [
    (EMBEDDINGS, {"model": "local-embed"}, "input"),
    embedded("input", input=None),
    embedded("input", input=""),
    embedded("input", input=[]),
    embedded("input", input=7),
    embedded("input", input=["a"] * 2049),
    embedded("input.1", input=["a", ""]),
    embedded("input.1", input=["a", 7]),
    embedded("input.1", input=[1, True]),
    embedded("input.0.1", input=[[1, 1.5]]),
    embedded("encoding_format", encoding_format="hex"),
    embedded("dimensions", dimensions=0),
    embedded("dimensions", dimensions=True),
    embedded("dimensions", dimensions=1.5),
    embedded("dimensions", dimensions="5"),
    ("/v1/engines/local-embed/embeddings", {"input": [""]}, "input.0"),
    (MODERATIONS, {}, "input"),
    (MODERATIONS, {"input": ""}, "input"),
    (MODERATIONS, {"input": 7}, "input"),
    (MODERATIONS, {"input": ["a", 7]}, "input.1"),
    (MODERATIONS, {"input": [{"type": "sound"}]}, "input.0.type"),
    (MODERATIONS, {"input": [{"type": "image_url", "image_url": {}}]}, "input.0.image_url.url"),
    (SPEECH, {"model": "local-tts", "voice": "alloy"}, "input"),
    (SPEECH, {"model": "local-tts", "input": "Hi"}, "voice"),
    spoken("input", input=""),
    spoken("input", input="a" * 4097),
    spoken("voice", voice="nobody-has-this-voice"),
    spoken("response_format", response_format="midi"),
    spoken("speed", speed=0.2),
    spoken("speed", speed="1"),
    spoken("stream_format", stream_format="xml"),
    (EMBEDDINGS, {"input": "Hi"}, "model"),
    (SPEECH, {"input": "Hi", "voice": "alloy"}, "model"),
]


def name_of(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) < 60 else None


@pytest.mark.parametrize(("path", "body", "param"), [*FAMILIES, *TONGYI, *OTHERS], ids=name_of)
def test_wrong_field_is_named(media: Gateway, path: str, body: Mapping[str, Any], param: str) -> None:
    got = post(media, path, body)
    assert (got.status, got.error["param"]) == (400, param)
    assert got.error["type"] == "invalid_request_error"
    assert got.error["code"]


@pytest.mark.parametrize("path", [EMBEDDINGS, MODERATIONS, SPEECH, IMAGES, EDITS])
def test_body_must_be_a_json_object(media: Gateway, path: str) -> None:
    assert [post(media, path, body).status for body in (b"{", b"[]", b"")] == [400] * 3
    assert post(media, path, {}, {"Content-Type": "text/plain"}).status == 415


@pytest.mark.parametrize(("model", "longest"), [("dall-e-2", 1000), ("dall-e-3", 4000), ("gpt-image-1", 32_000)])
def test_longest_prompt_is_counted_in_characters(media: Gateway, upstream: Upstream, model: str, longest: int) -> None:
    """By the vendor's names the families are known too."""
    upstream.script(images(PICTURE))
    assert post(media, *made(f"scripted/{model}", "", prompt="é" * (longest + 1))[:2]).error["param"] == "prompt"
    assert upstream.requests == []
    assert post(media, *made(f"scripted/{model}", "", prompt="é" * longest)[:2]).status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (EMBEDDINGS, {"model": "local-chat", "input": "Hi"}),
        (MODERATIONS, {"model": "local-embed", "input": "Hi"}),
        (IMAGES, {"model": "local-tts", "prompt": "A cat"}),
        (EDITS, {**tongyi("", [{"image": data_url(PICTURE)}, {"text": "A"}])[1], "model": "local-embed"}),
        (SPEECH, {"model": "local-image-1", "input": "Hi", "voice": "alloy"}),
        ("/v1/chat/completions", {"model": "local-embed", "messages": [{"role": "user", "content": "Hi"}]}),
        (EMBEDDINGS, {"model": "scripted/tts-1", "input": "Hi"}),
        (IMAGES, {"model": "scripted/whisper-1", "prompt": "A cat"}),
    ],
)
def test_known_model_asked_for_what_it_cannot_do(media: Gateway, path: str, body: Any) -> None:
    got = post(media, path, body)
    assert (got.status, got.error["param"], got.error["code"]) == (400, "model", "operation_not_supported")


@pytest.mark.parametrize("path", [EMBEDDINGS, MODERATIONS, SPEECH, IMAGES, EDITS])
def test_unknown_model_comes_before_every_other_fault(media: Gateway, path: str) -> None:
    got = post(media, path, {"model": "nobody", "input": 7, "prompt": 7})
    assert (got.status, got.error["param"], got.error["code"]) == (404, "model", "model_not_found")
    assert post(media, path, {"model": "nobody"}, {"Authorization": "Bearer wrong"}).status == 401


# Forms


def form(fields: Mapping[str, str], *files: tuple[str, str, str, bytes]) -> tuple[bytes, dict[str, str]]:
    """A form and its header; each file is name, filename, media type and bytes."""
    texts = [(f'name="{name}"', value.encode()) for name, value in fields.items()]
    parts = [
        *texts, *((f'name="{name}"; filename="{file}"\r\nContent-Type: {kind}', data) for name, file, kind, data in files)
    ]  # fmt: skip
    body = b"".join(b"--B\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (head.encode(), data)
                    for head, data in parts)  # fmt: skip
    return body + b"--B--\r\n", {"Content-Type": "multipart/form-data; boundary=B"}


def bomb() -> bytes:
    """A PNG of a few bytes whose header announces 60,000 by 60,000 pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


BAD_FILES: Sequence[tuple[str, bytes, str, str]] = [
    ("text", b"This is no picture at all.", "image/png", "wrong_media_type"),
    ("script", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "wrong_media_type"),
    ("mislabelled", PICTURE, "image/jpeg", "wrong_media_type"),
    ("cut", PICTURE[:14], "image/png", "invalid_image"),
    ("bomb", bomb(), "image/png", "image_too_large"),
]


@pytest.mark.parametrize(("name", "data", "media_type", "code"), BAD_FILES, ids=[case[0] for case in BAD_FILES])
def test_bad_picture_is_refused_wherever_it_is(
    media: Gateway, upstream: Upstream, name: str, data: bytes, media_type: str, code: str
) -> None:
    content = [{"image": data_url(data, media_type)}, {"text": "A hat"}]
    got = post(media, *tongyi("", content, EDITS)[:2])
    assert (got.status, got.error["param"]) == (400, "input.messages.0.content.0.image")
    assert got.error["code"] == code
    for model in ("local-image-edit", "scripted/gpt-image-1"):
        sent = form({"model": model, "prompt": "A hat"}, ("image", "a.png", media_type, data))
        got = post(media, EDITS, *sent)
        assert (got.status, got.error["param"], got.error["code"]) == (400, "image", code)
    assert upstream.requests == []


def test_picture_that_breaks_in_the_middle_is_the_callers_fault(media: Gateway) -> None:
    whole = picture_file((64, 64))
    content = [{"image": data_url(whole[: len(whole) // 2])}, {"text": "A hat"}]
    got = post(media, *tongyi("", content, EDITS)[:2])
    assert (got.status, got.error["param"]) == (400, "input.messages.0.content.0.image")


@pytest.mark.parametrize(
    ("path", "fields", "files", "param"),
    [
        (EDITS, {"prompt": "A hat"}, [], "image"),
        (EDITS, {"prompt": "A hat", "image": "a.png"}, [], "image"),
        (EDITS, {}, [("image", "a.png", "image/png", PICTURE)], "prompt"),
        (EDITS, {"prompt": "A", "n": "1.5"}, [("image", "a.png", "image/png", PICTURE)], "n"),
        (EDITS, {"prompt": "A", "n": "11"}, [("image", "a.png", "image/png", PICTURE)], "n"),
        (
            EDITS,
            {"prompt": "A", "model": "scripted/gpt-image-1"},
            [("image", "a.png", "image/png", PICTURE), ("mask", "m.png", "image/png", picture_file((32, 64)))],
            "mask",
        ),
        (TRANSCRIPTIONS, {"model": "scripted/whisper-1"}, [], "file"),
        (TRANSCRIPTIONS, {"model": "scripted/whisper-1"}, [("file", "a.wav", "audio/wav", b"")], "file"),
        (
            TRANSCRIPTIONS,
            {"model": "scripted/whisper-1", "response_format": "pdf"},
            [("file", "a.wav", "audio/wav", sound_file(0.1))],
            "response_format",
        ),
    ],
)
def test_wrong_field_of_a_form_is_named(
    media: Gateway, path: str, fields: Mapping[str, str], files: Any, param: str
) -> None:
    got = post(media, path, *form(fields, *files))
    assert (got.status, got.error["param"]) == (400, param)


@pytest.mark.parametrize(
    ("served", "code"),
    [
        (answer("<html>", headers={"content-type": "text/html"}), "wrong_media_type"),
        (answer("gone", status=404, headers={"content-type": "text/plain"}), "unreachable_url"),
        (answer(PICTURE[:14], headers={"content-type": "image/png"}), "invalid_image"),
    ],
    ids=["page", "gone", "cut"],
)
def test_address_without_a_picture_is_refused(media: Gateway, upstream: Upstream, served: Answer, code: str) -> None:
    upstream.script(served)
    got = post(media, *tongyi("", [{"image": f"{upstream.url}/a.png"}, {"text": "A hat"}], EDITS)[:2])
    assert (got.status, got.error["param"]) == (400, "input.messages.0.content.0.image")
    assert got.error["code"] == code
    assert upstream.url not in got.error["message"]


def test_variations_are_refused_where_nobody_makes_them(media: Gateway) -> None:
    sent = form({"model": "local-image-edit"}, ("image", "a.png", "image/png", PICTURE))
    got = post(media, VARIATIONS, *sent)
    assert (got.status, got.error["code"]) == (400, "operation_not_supported")


# One byte more

SMALL = """
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  scripted: {{plugin: openai, preset: openai, base_url: "{scripted}/v1", api_key: scripted-key}}
models:
  local-embed: {{provider: local}}
  "scripted/*": {{provider: scripted}}
keys:
  - {{name: test, key: "{key}"}}
limits: {{body_bytes: {limit}, upload_bytes: {upload_limit}}}
"""


@pytest.fixture(scope="module")
def small(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that takes little."""
    conf = SMALL.format(scripted=upstream_process.url, key=KEY, limit=LIMIT, upload_limit=UPLOAD_LIMIT)
    started = Gateway.start(conf, tmp_path_factory.mktemp("small"))
    yield started
    started.stop()


def test_json_may_be_as_long_as_conf_says_and_no_byte_longer(small: Gateway) -> None:
    def sent(length: int) -> Got:
        head = b'{"model": "local-embed", "input": "'
        return post(small, EMBEDDINGS, head + b"a" * (length - len(head) - 2) + b'"}')

    assert sent(LIMIT).status == 200
    too_long = sent(LIMIT + 1)
    assert (too_long.status, too_long.error["type"]) == (413, "invalid_request_error")


def test_form_may_be_as_long_as_conf_says_and_no_byte_longer(small: Gateway, upstream: Upstream) -> None:
    def sent(length: int) -> Got:
        def of(sound: bytes) -> tuple[bytes, dict[str, str]]:
            return form({"model": "scripted/whisper-1"}, ("file", "a.wav", "audio/wav", sound))

        return post(small, TRANSCRIPTIONS, *of(sound_file()[: length - len(of(b"")[0])]))

    upstream.script(make_answer({"text": "Hi"}))
    assert sent(UPLOAD_LIMIT).status == 200
    assert len(upstream.requests) == 1
    too_long = sent(UPLOAD_LIMIT + 1)
    assert (too_long.status, too_long.error["type"]) == (413, "invalid_request_error")
    assert len(upstream.requests) == 1
