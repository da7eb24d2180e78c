"""The fields of ``:generateContent`` for models that generate images or speech and do not support chat.

Every row of the chat table, sent to such a model, and the members of its own settings.

Source: as `generate`; google-genai 3.4, types.ImageConfig, SpeechConfig, VoiceConfig, MultiSpeakerVoiceConfig and
SpeechMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from qa.matrix import generate
from qa.matrix.fields import SOUND, Field, Group, anyway, find_value, put, row

_MODALITIES: Final = "generationConfig.responseModalities"
_IMAGE: Final = "generationConfig.imageConfig"
_SPEECH: Final = "generationConfig.speechConfig"
_NO_TEXT: Final = anyway(
    "a model that makes one thing makes that; clients ask for TEXT too because the vendor's own models want them to"
)
_ASKING: Final = {"role": "user", "parts": [{"text": "Hello"}]}


def _asked(body: Mapping[str, Any], modality: str) -> dict[str, Any]:
    """A chat body for generated media: with the modality, and a text as the user's last turn."""
    asked = dict(body)
    if not isinstance(find_value(body, _MODALITIES), list):
        asked = put(asked, _MODALITIES, [modality])
    last = [content for content in asked["contents"] if content.get("role") == "user"][-1]
    if not any("text" in part for part in last["parts"]):
        asked["contents"] = [*asked["contents"], _ASKING]
    return asked


def _of_chat(group: Group, modality: str) -> Group:
    """The rows of a group without modalities that this model does not support."""
    return Group(group.title, tuple(field for row in group.fields for field in _rebased(row, modality)))


def _rebased(field: Field, modality: str) -> tuple[Field, ...]:
    if field.at == _MODALITIES:
        if modality in field.value and len(field.value) == 1:
            return ()
        base = put(field.body, _MODALITIES, [modality])
        return (row(base, field.at, field.value, field.kind, instead=[modality], idle=_NO_TEXT),)
    return (replace(field, body=_asked(field.body, modality), without=_asked(field.without, modality)),)


def _base(modality: str) -> dict[str, Any]:
    return _asked(generate.BASE, modality)


picture, speech = partial(row, _base("IMAGE")), partial(row, _base("AUDIO"))


def _voice(name: str) -> dict[str, Any]:
    return {"prebuiltVoiceConfig": {"voiceName": name}}


PICTURE_GROUPS: Final = (
    Group(
        "imageConfig",
        (
            picture(f"{_IMAGE}.aspectRatio", "16:9", "16:9"),
            picture(f"{_IMAGE}.aspectRatio", "3:2", "3:2"),
            picture(f"{_IMAGE}.imageSize", "2K"),
            picture(f"{_IMAGE}.personGeneration", "mark-nobody"),
            picture(f"{_IMAGE}.prominentPeople", "mark-nobody"),
            picture(f"{_IMAGE}.outputMimeType", "image/jpeg"),
            picture(f"{_IMAGE}.outputCompressionQuality", 50),
            picture(f"{_IMAGE}.imageOutputOptions", {"mimeType": "image/jpeg"}),
        ),
    ),
    *(_of_chat(group, "IMAGE") for group in generate.GROUPS),
)

SPEECH_GROUPS: Final = (
    Group(
        "speechConfig",
        (
            speech(f"{_SPEECH}.voiceConfig", _voice("Puck"), "prebuiltVoiceConfig"),
            speech(f"{_SPEECH}.voiceConfig", {"voice": "Puck"}, "voice"),
            speech(
                f"{_SPEECH}.voiceConfig",
                {"replicatedVoiceConfig": {"mimeType": "audio/wav", "voiceSampleAudio": SOUND}},
                "replicatedVoiceConfig",
            ),
            speech(f"{_SPEECH}.languageCode", "de-DE", "German"),
            speech(f"{_SPEECH}.languageCode", "tlh", "a rare language"),
            speech(
                f"{_SPEECH}.multiSpeakerVoiceConfig",
                {"speakerVoiceConfigs": [{"speaker": "mark-person", "voiceConfig": _voice("Puck")}]},
            ),
            speech("contents.0.parts.0.speechMetadata", {"style": "mark-cheerfully"}, "style"),
            speech("contents.0.parts.0.speechMetadata", {"speaker": "mark-person"}, "speaker"),
        ),
    ),
    *(_of_chat(group, "AUDIO") for group in generate.GROUPS),
)
