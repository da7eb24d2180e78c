"""Generate bodies for image and speech models without chat: the server half. Pure.

Such a model takes one prompt, the last user turn. All other members are reported to `call.drop_field` by their path.

Source: google-genai 3.4, types.GenerateContentConfig, ImageConfig and SpeechConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, Data, File, Image, ImageRequest, Link, SpeechRequest, Text
from tornado_gate.types.value import State, Value, field
from tornado_gate_gemini.wire.generate.json_values import read_object, read_objects
from tornado_gate_gemini.wire.generate.names import WIRE_FORMAT, convert_to_camel_case, restore_spelling
from tornado_gate_gemini.wire.generate.parts import parse_part

_CONFIG: Final = "generationConfig"
_IMAGE: Final = f"{_CONFIG}.imageConfig"
_SPEECH: Final = f"{_CONFIG}.speechConfig"
_VOICE: Final = f"{_SPEECH}.voiceConfig"
_PREBUILT: Final = f"{_VOICE}.prebuiltVoiceConfig"
_MODALITIES: Final = f"{_CONFIG}.responseModalities"


class LocatedImageRequest(Value, frozen=True, kw_only=True):
    """An image request, and the path of each of its images in the body."""

    request: ImageRequest
    paths: tuple[str, ...]


def parse_images(call: Call, body: Mapping[str, Any], *, model: str) -> LocatedImageRequest:
    """The image request of a validated body. Raises InvalidField when the body requests another modality or has no prompt."""
    reader = _MediaRequestReader(call, body)
    reader.require_modality("IMAGE", said=False)
    turn = reader.read_last_turn(pictures=True)
    config, image = reader.get_object(_CONFIG), reader.get_object(_IMAGE)
    reader.drop_unread("", "contents", _CONFIG, "model")
    reader.drop_unread(_CONFIG, "candidateCount", "seed", "imageConfig", "responseModalities")
    reader.drop_unread(_IMAGE, "aspectRatio", "imageSize")
    names = {
        "prompt": turn.path,
        "images": turn.path,
        "n": f"{_CONFIG}.candidateCount",
        "seed": f"{_CONFIG}.seed",
        "aspect_ratio": f"{_IMAGE}.aspectRatio",
        "resolution": f"{_IMAGE}.imageSize",
    }
    request = ImageRequest(
        model=model,
        wire_format=WIRE_FORMAT,
        prompt=turn.text,
        images=tuple(source for _, source in turn.images),
        n=config.get("candidateCount"),
        seed=config.get("seed"),
        aspect_ratio=image.get("aspectRatio"),
        resolution=image.get("imageSize"),
        names=reader.restore_spellings(names),
    )
    return LocatedImageRequest(request=request, paths=tuple(path for path, _ in turn.images))


def parse_speech(call: Call, body: Mapping[str, Any], *, model: str, stream: bool = False) -> SpeechRequest:
    """The speech request of a validated body; a system instruction becomes the speaking instructions. Raises InvalidField."""
    reader = _MediaRequestReader(call, body)
    reader.require_modality("AUDIO", said=True)
    turn = reader.read_last_turn(pictures=False)
    speech, voice = reader.get_object(_SPEECH), reader.get_object(_VOICE)
    named = reader.get_object(_PREBUILT).get("voiceName")
    reader.drop_unread("", "contents", "systemInstruction", _CONFIG, "model")
    ignored = "candidateCount" if reader.get_object(_CONFIG).get("candidateCount") == 1 else ""
    reader.drop_unread(_CONFIG, "responseModalities", "speechConfig", ignored)
    reader.drop_unread(_SPEECH, "voiceConfig", "languageCode")
    reader.drop_unread(_VOICE, "prebuiltVoiceConfig", "voice" if named is None else "")
    reader.drop_unread(_PREBUILT, "voiceName")
    names = {
        "text": turn.path,
        "voice": f"{_VOICE}.voice" if named is None else f"{_PREBUILT}.voiceName",
        "format": _MODALITIES,
        "instructions": "systemInstruction",
        "language": f"{_SPEECH}.languageCode",
    }
    return SpeechRequest(
        model=model,
        wire_format=WIRE_FORMAT,
        text=turn.text,
        voice=voice.get("voice") if named is None else named,
        instructions=reader.read_instruction(),
        format="pcm",
        language=speech.get("languageCode"),
        stream=stream,
        names=reader.restore_spellings(names),
    )


class _UserTurn(State):
    path: str
    texts: list[str] = field(default_factory=list)
    images: list[tuple[str, Data | Link]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


class _MediaRequestReader:
    """The reader of a body in camelCase; reported paths have the caller's spelling."""

    def __init__(self, call: Call, body: Mapping[str, Any]) -> None:
        self._call = call
        self._body = body
        self._wire: Mapping[str, Any] = convert_to_camel_case(dict(body))

    def restore_spellings(self, names: Mapping[str, str]) -> dict[str, str]:
        return {name: restore_spelling(self._body, path) for name, path in names.items()}

    def get_object(self, path: str) -> Mapping[str, Any]:
        """The object at a path; {} if it is absent."""
        value: Any = self._wire
        for name in path.split(".") if path else ():
            value = value[int(name)] if isinstance(value, list) else read_object(value).get(name)
        return read_object(value)

    def require_modality(self, modality: str, *, said: bool) -> None:
        """Raise InvalidField unless ``responseModalities`` includes `modality`. With `said` a missing member is an error too."""
        modalities = self.get_object(_CONFIG).get("responseModalities")
        if (modalities or said) and modality not in [str(name).upper() for name in modalities or ()]:
            path = restore_spelling(self._body, _MODALITIES)
            message = f"'{path}' must include '{modality}': the model '{self._call.model}' supports no other output."
            raise InvalidField(path, message)

    def read_last_turn(self, *, pictures: bool) -> _UserTurn:
        """The last user turn. Reports all other ``contents`` as dropped. Raises InvalidField for a turn without text."""
        contents = read_objects(self._wire.get("contents"))
        turns = [index for index, content in enumerate(contents) if content.get("role") in (None, "", "user")]
        if not turns:
            raise InvalidField("contents", "'contents' must contain a turn with role 'user'.")
        for index in range(len(contents)):
            if index != turns[-1]:
                self._call.drop_field(f"contents.{index}")
        turn = _UserTurn(f"contents.{turns[-1]}.parts")
        for index, part in enumerate(read_objects(contents[turns[-1]].get("parts"))):
            self._take(turn, f"{turn.path}.{index}", part, pictures)
        if not turn.text.strip():
            raise InvalidField(turn.path, f"'{turn.path}' must contain a part with text that is not empty.")
        return turn

    def _take(self, turn: _UserTurn, path: str, value: Mapping[str, Any], pictures: bool) -> None:
        match parse_part(value):
            case Text(text=text, extra=extra):
                turn.texts.append(text)
            case Image(source=source, extra=extra) | File(source=source, extra=extra) if pictures and _is_image(source):
                assert isinstance(source, Data | Link)
                holder, inner = ("inlineData", "data") if isinstance(source, Data) else ("fileData", "fileUri")
                turn.images.append((restore_spelling(self._body, f"{path}.{holder}.{inner}"), source))
                self.drop_unread(f"{path}.{holder}", inner, "mimeType")
                extra = {name: member for name, member in extra.items() if name != holder}
            case _:
                self._call.drop_field(path)
                return
        for name, member in extra.items():
            if not _is_empty_value(member):
                self._call.drop_field(restore_spelling(self._body, f"{path}.{name}"))

    def read_instruction(self) -> str | None:
        """The text of ``systemInstruction``, which is a string, a part or a content."""
        value = self._wire.get("systemInstruction")
        if isinstance(value, str):
            return value or None
        parts = read_object(value).get("parts", value)
        values: Iterable[Any] = parts if isinstance(parts, list) else [parts]
        texts = [read_object(part).get("text") for part in values]
        return "\n".join(text for text in texts if isinstance(text, str)) or None

    def drop_unread(self, path: str, *known: str) -> None:
        """Report each non-empty member of the object at `path` that is not in `known`."""
        for name, value in self.get_object(path).items():
            if name not in known and not _is_empty_value(value):
                self._call.drop_field(restore_spelling(self._body, f"{path}.{name}" if path else name))


def _is_image(source: object) -> bool:
    """Return whether a source is an image with data or a URL. One with a display name is a `File`."""
    return isinstance(source, Data | Link) and source.media_type.lower().startswith("image/")


def _is_empty_value(value: Any) -> bool:
    """Return whether `value` is null, false, an empty list or an object of such values, which SDKs send for unset members."""
    if isinstance(value, Mapping):
        return all(_is_empty_value(member) for member in value.values())
    return value is None or value is False or value == []
