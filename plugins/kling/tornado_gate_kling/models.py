"""Features by model name. A model with an unknown name is assumed to support everything.

Source: https://app.klingai.com/global/dev/document-api/apiReference/model/skillsMap, "Capability Map", and the tables
of …/model/textToVideo and …/model/imageToVideo. They list the models, 5 or 10 seconds up to V2.6 and 3 to 15 from V3
on, cfg_scale for all except V2.x, and audio from V2.6 on.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.value import Value

FIVE_OR_TEN: Final = (5, 10)
THREE_TO_FIFTEEN: Final = tuple(range(3, 16))


class KlingModel(Value, frozen=True, kw_only=True):
    """The features of a model. `seconds`: the supported durations, any whole number when empty. `text`: it works
    without an image.
    """

    seconds: tuple[int, ...] = ()
    text: bool = True
    cfg_scale: bool = True
    sound: bool = True


_KNOWN_MODELS: Final = (
    ("kling-v1-5", KlingModel(seconds=FIVE_OR_TEN, text=False, sound=False)),
    ("kling-v1", KlingModel(seconds=FIVE_OR_TEN, sound=False)),
    ("kling-v1-*", KlingModel(seconds=FIVE_OR_TEN, sound=False)),
    ("kling-v2-1", KlingModel(seconds=FIVE_OR_TEN, text=False, cfg_scale=False, sound=False)),
    ("kling-v2-master", KlingModel(seconds=FIVE_OR_TEN, cfg_scale=False, sound=False)),
    ("kling-v2-1-master", KlingModel(seconds=FIVE_OR_TEN, cfg_scale=False, sound=False)),
    ("kling-v2-5-*", KlingModel(seconds=FIVE_OR_TEN, cfg_scale=False, sound=False)),
    ("kling-v2-*", KlingModel(seconds=FIVE_OR_TEN, cfg_scale=False)),
    ("kling-v3", KlingModel(seconds=THREE_TO_FIFTEEN)),
)
_UNKNOWN_MODEL: Final = KlingModel()


def find_model(name: str) -> KlingModel:
    """Return the features of an upstream model, by name."""
    name = canonicalize_name(name)
    return next((model for pattern, model in _KNOWN_MODELS if fnmatchcase(name, pattern)), _UNKNOWN_MODEL)


def describe_seconds(seconds: tuple[int, ...]) -> str:
    """Return the durations as text: '5 or 10', 'from 3 to 15'."""
    if len(seconds) > 2:
        return f"from {seconds[0]} to {seconds[-1]}"
    return " or ".join(map(str, seconds))
