"""Generate bodies for models that make pictures or speech and cannot chat: the server half. Pure.

Such a model takes one prompt: the last turn of the user. What else the body says is reported to `call.lose` by its path.

Source: google-genai 3.4, types.GenerateContentConfig, ImageConfig and SpeechConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, Data, File, Image, ImageRequest, Link, SpeechRequest, Text
from tornado_gate.types.value import State, Value, field
from tornado_gate.wire.gemini_generate.json_values import items, mapping
from tornado_gate.wire.gemini_generate.names import WIRE_FORMAT, camelised, spelled
from tornado_gate.wire.gemini_generate.parts import parse_part

_CONFIG: Final = "generationConfig"
_IMAGE: Final = f"{_CONFIG}.imageConfig"
_SPEECH: Final = f"{_CONFIG}.speechConfig"
_VOICE: Final = f"{_SPEECH}.voiceConfig"
_PREBUILT: Final = f"{_VOICE}.prebuiltVoiceConfig"
_MODALITIES: Final = f"{_CONFIG}.responseModalities"


class Pictures(Value, frozen=True, kw_only=True):
    """An image request, and where in the body each of its images stands."""

    request: ImageRequest
    paths: tuple[str, ...]


def parse_images(call: Call, body: Mapping[str, Any], *, model: str) -> Pictures:
    """The image request in a checked body. Raises InvalidField for one that asks for something else than pictures."""
    reader = _Reader(call, body)
    reader.need_modality("IMAGE", said=False)
    turn = reader.last_turn(pictures=True)
    config, image = reader.at(_CONFIG), reader.at(_IMAGE)
    reader.lose_rest("", "contents", _CONFIG, "model")
    reader.lose_rest(_CONFIG, "candidateCount", "seed", "imageConfig", "responseModalities")
    reader.lose_rest(_IMAGE, "aspectRatio", "imageSize")
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
        names=reader.spelled_all(names),
    )
    return Pictures(request=request, paths=tuple(path for path, _ in turn.images))


def parse_speech(call: Call, body: Mapping[str, Any], *, model: str, stream: bool = False) -> SpeechRequest:
    """The speech request in a checked body; a system instruction says how to speak. Raises InvalidField."""
    reader = _Reader(call, body)
    reader.need_modality("AUDIO", said=True)
    turn = reader.last_turn(pictures=False)
    speech, voice = reader.at(_SPEECH), reader.at(_VOICE)
    named = reader.at(_PREBUILT).get("voiceName")
    reader.lose_rest("", "contents", "systemInstruction", _CONFIG, "model")
    one = "candidateCount" if reader.at(_CONFIG).get("candidateCount") == 1 else ""
    reader.lose_rest(_CONFIG, "responseModalities", "speechConfig", one)
    reader.lose_rest(_SPEECH, "voiceConfig", "languageCode")
    reader.lose_rest(_VOICE, "prebuiltVoiceConfig", "voice" if named is None else "")
    reader.lose_rest(_PREBUILT, "voiceName")
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
        instructions=reader.instruction(),
        format="pcm",
        language=speech.get("languageCode"),
        stream=stream,
        names=reader.spelled_all(names),
    )


class _Turn(State):
    path: str
    texts: list[str] = field(default_factory=list)
    images: list[tuple[str, Data | Link]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


class _Reader:
    """A body in camelCase; paths are told as the caller spelled them."""

    def __init__(self, call: Call, body: Mapping[str, Any]) -> None:
        self._call = call
        self._body = body
        self._wire: Mapping[str, Any] = camelised(dict(body))

    def spelled_all(self, names: Mapping[str, str]) -> dict[str, str]:
        return {name: spelled(self._body, path) for name, path in names.items()}

    def at(self, path: str) -> Mapping[str, Any]:
        """The object at a path; an empty one when there is none."""
        found: Any = self._wire
        for name in path.split(".") if path else ():
            found = found[int(name)] if isinstance(found, list) else mapping(found).get(name)
        return mapping(found)

    def need_modality(self, wanted: str, *, said: bool) -> None:
        """`said` when silence does not mean it."""
        modalities = self.at(_CONFIG).get("responseModalities")
        if (modalities or said) and wanted not in [str(one).upper() for one in modalities or ()]:
            path = spelled(self._body, _MODALITIES)
            message = f"'{path}' must include '{wanted}': the model '{self._call.model}' makes nothing else."
            raise InvalidField(path, message)

    def last_turn(self, *, pictures: bool) -> _Turn:
        """What the user said last. Everything else in ``contents`` is lost."""
        contents = items(self._wire.get("contents"))
        turns = [place for place, content in enumerate(contents) if content.get("role") in (None, "", "user")]
        if not turns:
            raise InvalidField("contents", "'contents' must hold a turn of the user.")
        for place in range(len(contents)):
            if place != turns[-1]:
                self._call.lose(f"contents.{place}")
        turn = _Turn(f"contents.{turns[-1]}.parts")
        for place, part in enumerate(items(contents[turns[-1]].get("parts"))):
            self._take(turn, f"{turn.path}.{place}", part, pictures)
        if not turn.text.strip():
            raise InvalidField(turn.path, f"'{turn.path}' must hold a text.")
        return turn

    def _take(self, turn: _Turn, path: str, value: Mapping[str, Any], pictures: bool) -> None:
        match parse_part(value):
            case Text(text=text, extra=extra):
                turn.texts.append(text)
            case Image(source=source, extra=extra) | File(source=source, extra=extra) if pictures and _shows(source):
                assert isinstance(source, Data | Link)
                holder, inner = ("inlineData", "data") if isinstance(source, Data) else ("fileData", "fileUri")
                turn.images.append((spelled(self._body, f"{path}.{holder}.{inner}"), source))
                self.lose_rest(f"{path}.{holder}", inner, "mimeType")
                extra = {name: member for name, member in extra.items() if name != holder}
            case _:
                self._call.lose(path)
                return
        for name, member in extra.items():
            if not _says_nothing(member):
                self._call.lose(spelled(self._body, f"{path}.{name}"))

    def instruction(self) -> str | None:
        """The text of ``systemInstruction``: a string, a part, or a content."""
        value = self._wire.get("systemInstruction")
        if isinstance(value, str):
            return value or None
        parts = mapping(value).get("parts", value)
        values: Iterable[Any] = parts if isinstance(parts, list) else [parts]
        said = [mapping(part).get("text") for part in values]
        return "\n".join(text for text in said if isinstance(text, str)) or None

    def lose_rest(self, path: str, *known: str) -> None:
        """Every member of the object at `path` that says something and is not `known`."""
        for name, value in self.at(path).items():
            if name not in known and not _says_nothing(value):
                self._call.lose(spelled(self._body, f"{path}.{name}" if path else name))


def _shows(source: object) -> bool:
    """Whether a source is a picture that can be had. One with a name is a File in the vocabulary."""
    return isinstance(source, Data | Link) and source.media_type.lower().startswith("image/")


def _says_nothing(value: Any) -> bool:
    """Null, false, an empty list, and an object of nothing else: what SDKs send for what was not said."""
    if isinstance(value, Mapping):
        return all(_says_nothing(member) for member in value.values())
    return value is None or value is False or value == []
