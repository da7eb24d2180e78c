"""Pictures: what the upstream is sent, and what becomes of its answers."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pytest
from gemini_calls import BASE, call_for, translate_request
from gemini_media import (
    IMAGEN,
    OLD_PICTURES,
    PICTURES,
    PNG,
    body_of,
    candidate,
    events_of,
    inline,
    json_of,
    png,
)

from tornado_gate.errors import InvalidField, UpstreamRefused
from tornado_gate.types import (
    Data,
    ImageRequest,
    ImageResult,
    Link,
    replace,
)

# Pictures at models that answer generateContent

DRAW = ImageRequest(model="m", prompt="A cat")


def test_a_picture_is_asked_for_in_a_turn() -> None:
    request = replace(DRAW, aspect_ratio="16:9", resolution="2K", seed=3)
    assert translate_request(request, call_for(PICTURES)).url == f"{BASE}/models/{PICTURES}:generateContent"
    assert body_of(request, PICTURES) == {
        "contents": [{"role": "user", "parts": [{"text": "A cat"}]}],
        "generationConfig": {
            "responseModalities": ["TEXT", "IMAGE"],
            "imageConfig": {"aspectRatio": "16:9", "imageSize": "2K"},
            "seed": 3,
        },
    }
    assert body_of(DRAW, PICTURES)["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}


@pytest.mark.parametrize(
    ("size", "image", "losses"),
    [
        ("auto", None, []),
        ("1024x1024", {"aspectRatio": "1:1"}, []),
        ("1024*1536", {"aspectRatio": "2:3"}, []),
        ("1536x1024", {"aspectRatio": "3:2"}, []),
        ("1792x1024", {"aspectRatio": "16:9"}, ["size"]),
        ("2048x2048", {"aspectRatio": "1:1", "imageSize": "2K"}, []),
        ("3840x2160", {"aspectRatio": "16:9", "imageSize": "2K"}, []),
        ("4096x4096", {"aspectRatio": "1:1", "imageSize": "4K"}, []),
        ("99999x1", {"aspectRatio": "21:9"}, ["size"]),
        ("large", None, ["size"]),
        ("0x5", None, ["size"]),
    ],
)
def test_a_size_is_the_nearest_shape(size: str, image: Any, losses: list[str]) -> None:
    config = body_of(replace(DRAW, size=size), PICTURES, losses)["generationConfig"]
    assert config.get("imageConfig") == image


def test_a_model_with_one_resolution_is_asked_for_no_other() -> None:
    request = replace(DRAW, size="2048x2048", resolution="2K", names={"resolution": "image_size"})
    config = body_of(request, OLD_PICTURES, ["image_size", "size"])["generationConfig"]
    assert config["imageConfig"] == {"aspectRatio": "1:1"}


def test_a_ratio_beats_a_size() -> None:
    config = body_of(replace(DRAW, size="1024x1024", aspect_ratio="4:5"), PICTURES, ["size"])["generationConfig"]
    assert config["imageConfig"] == {"aspectRatio": "4:5"}


def test_what_cannot_be_said_is_lost_in_the_callers_words() -> None:
    request = ImageRequest(
        model="m",
        prompt="A cat",
        mask=Data(media_type="image/png", base64=PNG),
        negative_prompt="dogs",
        n=2,
        quality="high",
        style="vivid",
        background="auto",
        moderation="low",
        output_format="png",
        output_compression=5,
        input_fidelity="high",
        watermark=False,
        prompt_extend=True,
        user="u",
        stream=True,
        partial_images=2,
        extra={"x": 1},
        names={"prompt_extend": "parameters.prompt_extend"},
    )
    losses = ["mask", "negative_prompt", "quality", "style", "moderation", "output_format", "output_compression"]
    losses += ["input_fidelity", "watermark", "parameters.prompt_extend", "user", "partial_images", "x", "n"]
    body_of(request, PICTURES, losses)


@dataclass(frozen=True)
class Fetched:
    data: bytes
    media_type: str


class Fetcher:
    async def fetch(self, url: str, *, kinds: Any, param: str) -> Fetched:
        assert (url, tuple(kinds), param) == ("https://h.example/a", ("image/",), "images.1")
        return Fetched(png(2, 2), "image/png")


def test_pictures_to_change_go_up_inside_the_turn() -> None:
    request = replace(DRAW, images=(Data(media_type="", base64=PNG), Link(url="https://h.example/a")))
    outgoing = translate_request(request, replace(call_for(PICTURES), fetcher=Fetcher()))
    assert outgoing.json["contents"][0]["parts"] == [
        {"text": "A cat"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(png(2, 2)).decode()}},
    ]


def test_a_picture_that_is_none_is_refused_under_the_callers_name() -> None:
    request = replace(DRAW, images=(Data(media_type="image/png", base64="AAEC"),), names={"images": "image"})
    with pytest.raises(InvalidField) as caught:
        translate_request(request, call_for(PICTURES))
    assert caught.value.param == "image"


def test_pictures_come_back_without_those_that_were_thought_of() -> None:
    usage = {
        "promptTokenCount": 265,
        "candidatesTokenCount": 1290,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 7}, {"modality": "IMAGE", "tokenCount": 258}],
    }
    body = candidate(
        {"text": "Hm", "thought": True},
        {**inline(png(3, 3), "image/png"), "thought": True},
        {"text": "Here"},
        {**inline(png(), "image/jpeg"), "thoughtSignature": "c2ln"},
        modelVersion="v",
        usageMetadata=usage,
    )
    (result,) = events_of(DRAW, json_of(body), PICTURES)
    assert isinstance(result, ImageResult)
    assert [(image.data, image.media_type) for image in result.images] == [(png(), "image/png")]
    assert (result.text, result.model) == ("Here", "v")
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.image_tokens) == (265, 1290, 258)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "content_policy_violation", "SAFETY"),
        ({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "No."}}, "content_policy_violation", "No."),
        (candidate(reason="IMAGE_SAFETY", x=1), "content_policy_violation", "IMAGE_SAFETY"),
        (candidate(reason="NO_IMAGE"), "nothing_made", "NO_IMAGE"),
        (candidate({"text": "I would rather not."}), "nothing_made", "I would rather not."),
    ],
)
def test_no_picture_is_told_with_the_upstreams_reason(body: Any, code: str, words: str) -> None:
    with pytest.raises(UpstreamRefused) as caught:
        events_of(DRAW, json_of(body), PICTURES)
    assert (caught.value.status, caught.value.code) == (400, code)
    assert words in caught.value.message


# Pictures at models of :predict


def test_imagen_is_asked_by_predict() -> None:
    request = replace(DRAW, n=2, size="1024x1792", output_format="jpeg", output_compression=80, resolution="2K")
    outgoing = translate_request(request, call_for(IMAGEN))
    assert outgoing.url == f"{BASE}/models/{IMAGEN}:predict"
    assert body_of(request, IMAGEN, ["size"]) == {
        "instances": [{"prompt": "A cat"}],
        "parameters": {
            "sampleCount": 2,
            "aspectRatio": "9:16",
            "sampleImageSize": "2K",
            "outputOptions": {"mimeType": "image/jpeg", "compressionQuality": 80},
            "includeRaiReason": True,
        },
    }


def test_imagen_makes_one_picture_unless_told_and_four_at_most() -> None:
    assert body_of(DRAW, IMAGEN)["parameters"] == {"sampleCount": 1, "includeRaiReason": True}
    assert body_of(replace(DRAW, n=9), IMAGEN, ["n"])["parameters"]["sampleCount"] == 4


def test_what_imagen_cannot_be_told_is_lost() -> None:
    request = replace(DRAW, seed=1, output_format="webp", output_compression=5, resolution="2K", negative_prompt="dogs")
    losses = ["negative_prompt", "seed", "resolution", "output_format", "output_compression"]
    body_of(request, "imagen-3.0-generate-002", losses)


def test_imagen_changes_no_pictures() -> None:
    request = replace(DRAW, images=(Data(media_type="image/png", base64=PNG),), names={"images": "contents.0.parts"})
    with pytest.raises(InvalidField) as caught:
        translate_request(request, call_for(IMAGEN))
    assert caught.value.param == "contents.0.parts"


def test_predictions_are_pictures() -> None:
    made = {"mimeType": "image/png", "bytesBase64Encoded": PNG, "prompt": "A small cat"}
    (result,) = events_of(DRAW, json_of({"predictions": [made, {"raiFilteredReason": "No."}]}), IMAGEN)
    (image,) = result.images
    assert (image.data, image.media_type, image.revised_prompt) == (png(), "image/png", "A small cat")


@pytest.mark.parametrize(
    ("body", "words"), [({}, "removed all"), ({"predictions": [{"raiFilteredReason": "Code 17."}]}, "Code 17.")]
)
def test_filtered_predictions_are_told_with_the_reason(body: Any, words: str) -> None:
    with pytest.raises(UpstreamRefused, match=words) as caught:
        events_of(DRAW, json_of(body), IMAGEN)
    assert (caught.value.status, caught.value.code) == (400, "content_policy_violation")
