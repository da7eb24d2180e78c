"""The usage of a request in the units of prices."""

from __future__ import annotations

from tornado_gate.types.value import Value


class Quantities(Value, frozen=True, kw_only=True):
    """The usage of a request in the units of prices. None: not reported, or not used.

    `input_tokens` count the whole prompt. They include `audio_input_tokens`, `image_input_tokens`, `video_input_tokens`,
    `cached_input_tokens` and `cache_write_tokens`. `output_tokens` count the whole output. They include `reasoning_tokens`,
    `audio_output_tokens`, `image_output_tokens` and `video_output_tokens`. `cached_audio_input_tokens` are part of
    `cached_input_tokens` and of `audio_input_tokens`. `cached_image_input_tokens` are part of `cached_input_tokens` and of
    `image_input_tokens`. `cache_write_1h_tokens` are part of `cache_write_tokens`. `images` and `web_searches` are counts.
    `characters` is the length of a text that is spoken. `seconds` is the duration of video or sound, generated or transcribed.
    `size` and `quality` describe images or video. `service_tier` is the tier in which the upstream served the request, "" if it
    was not reported.
    """

    input_tokens: int | None = None
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    audio_input_tokens: int = 0
    cached_audio_input_tokens: int = 0
    image_input_tokens: int = 0
    cached_image_input_tokens: int = 0
    video_input_tokens: int = 0
    output_tokens: int | None = None
    reasoning_tokens: int = 0
    audio_output_tokens: int = 0
    image_output_tokens: int = 0
    video_output_tokens: int = 0
    images: int | None = None
    seconds: float | None = None
    characters: int | None = None
    web_searches: int = 0
    size: str = ""
    quality: str = ""
    service_tier: str = ""
