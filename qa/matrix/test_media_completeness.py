"""The tables beyond chat have every field of the vendors' SDKs."""

from __future__ import annotations

from typing import Any, Final

import pytest
from google.genai import types as google_types
from openai.types import (
    embedding_create_params,
    image_edit_params,
    image_generate_params,
    image_input_reference_param,
    moderation_create_params,
    moderation_image_url_input_param,
    moderation_text_input_param,
)
from openai.types.audio import speech_create_params, transcription_create_params, translation_create_params

from qa.matrix.fields import UNKNOWN
from qa.matrix.places import aliases, members, places, said

ROUTING: Final = {"model"}
OURS: Final = {UNKNOWN}

EDIT: Final = said(image_edit_params.ImageEditParamsBase, image_edit_params.ImageEditParamsStreaming)
GENERATED: Final = said(
    image_generate_params.ImageGenerateParamsBase, image_generate_params.ImageGenerateParamsStreaming
)
TRANSCRIBED: Final = said(
    transcription_create_params.TranscriptionCreateParamsBase,
    transcription_create_params.TranscriptionCreateParamsStreaming,
)
GOOGLE_KEEPS_TO_ITSELF: Final = {"httpOptions"}


@pytest.mark.parametrize(
    ("name", "known", "more"),
    [
        ("embeddings", said(embedding_create_params.EmbeddingCreateParams), set()),
        ("moderations", said(moderation_create_params.ModerationCreateParams), set()),
        ("images", GENERATED, set()),
        ("edits", EDIT, {"style", "moderation"}),
        ("edits, JSON", EDIT - {"image", "markup"}, {"images", "style", "moderation"}),
        ("speech", said(speech_create_params.SpeechCreateParams), set()),
        ("transcriptions", TRANSCRIBED, set()),
        ("translations", said(translation_create_params.TranslationCreateParams), {"language", "stream"}),
    ],
)
def test_every_field_of_openais_sdk_is_there(name: str, known: set[str], more: set[str]) -> None:
    """`more` are fields of another route of the same kind, which callers also send here."""
    assert members(name) | ROUTING == known | more | OURS


@pytest.mark.parametrize("name", ["embedContent", "batchEmbedContents"])
def test_every_setting_of_an_embedding_is_there(name: str) -> None:
    below = "requests[]." if name.startswith("batch") else ""
    known = aliases(google_types.EmbedContentConfig) - GOOGLE_KEEPS_TO_ITSELF
    assert known <= members(name, below)


@pytest.mark.parametrize("name", ["images, input", "edits, input"])
def test_every_field_of_the_interface_is_there(name: str) -> None:
    beside = {"response_format", "stream", "user"}
    assert members(name) == {"input", "parameters"} | beside | OURS
    contract = {"negative_prompt", "prompt_extend", "watermark", "size", "n"}
    assert members(name, "parameters.") == contract | {"seed"} | OURS
    item = {"text", "image"} if name.startswith("edits") else {"text"}
    assert members(name, "input.messages[].content[].") >= item


NESTED: Final[list[tuple[str, str, set[str]]]] = [
    ("images", "svg.", said(image_generate_params.Svg)),
    ("images", "svg.reasoning.", said(image_generate_params.SvgReasoning)),
    ("edits, JSON", "images[].", said(image_input_reference_param.ImageInputReferenceParam)),
    ("speech", "voice.", said(speech_create_params.VoiceID)),
    (
        "moderations",
        "input[].",
        said(
            moderation_text_input_param.ModerationTextInputParam,
            moderation_image_url_input_param.ModerationImageURLInputParam,
        ),
    ),
    ("generateContent, pictures", "generationConfig.imageConfig.", aliases(google_types.ImageConfig)),
    ("generateContent, speech", "generationConfig.speechConfig.", aliases(google_types.SpeechConfig)),
    ("generateContent, speech", "generationConfig.speechConfig.voiceConfig.", aliases(google_types.VoiceConfig)),
    ("generateContent, speech", "contents[].parts[].speechMetadata.", aliases(google_types.SpeechMetadata)),
]


@pytest.mark.parametrize(("name", "prefix", "known"), NESTED, ids=[f"{name} {prefix}" for name, prefix, _ in NESTED])
def test_members_of_objects_are_there_too(name: str, prefix: str, known: set[str]) -> None:
    assert known - members(name, prefix) == set()


@pytest.mark.parametrize(
    ("name", "prefix", "object_of"),
    [
        ("edits", "svg", image_edit_params.Svg),
        ("edits", "svg[reasoning]", image_edit_params.SvgReasoning),
        ("transcriptions", "chunking_strategy", transcription_create_params.ChunkingStrategyVadConfig),
    ],
)
def test_objects_of_a_form_have_a_row_for_each_member(name: str, prefix: str, object_of: Any) -> None:
    """Forms write ``svg[reasoning][effort]`` for them."""
    begun = places(name)
    assert {
        member for member in said(object_of) if not any(_is_below(place, prefix, member) for place in begun)
    } == set()


def _is_below(place: str, prefix: str, member: str) -> bool:
    return place == f"{prefix}[{member}]" or place.startswith(f"{prefix}[{member}][")


def test_models_that_make_one_thing_are_asked_for_everything_that_chat_knows() -> None:
    for name in ("generateContent, pictures", "generateContent, speech"):
        assert places("generateContent") <= places(name) | {"generationConfig.responseModalities[]"}
