"""The fields of ``POST /v1/images/generations``, in both of its shapes.

Source: openai-python 3.52, types/image_generate_params.py; the interface's table of the shape with ``input`` and
``parameters``; https://www.alibabacloud.com/help/en/model-studio/qwen-image-api for the vendor's other fields.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.declared import declared_row
from qa.matrix.fields import MODEL, UNKNOWN, Field, Group, Idle, answer_only, anyway, put, row
from tornado_gate_openai.fields.images import GenerationBodySchema

BASE: Final[dict[str, Any]] = {"model": MODEL, "prompt": "A cat"}
STREAMED: Final = {**BASE, "stream": True}
AS_JPEG: Final = {**BASE, "output_format": "jpeg"}
SVG: Final[dict[str, Any]] = {"model": "mark-drawer", "reasoning": {"effort": "low"}}

AUTO: Final = anyway("auto is what is done unless said", "dashscope", "gemini", "local")
PNG: Final = anyway("the upstream's pictures are PNG anyway")
SQUARE: Final = anyway("that is the size unless said", "local")
HOW_IT_COMES: Final = answer_only(
    "the upstream is asked for bytes; the gateway puts them in the answer, or keeps them and names an address"
)
ONE_EVENT: Final = answer_only(
    "an upstream that cannot stream is asked for the whole; the gateway's stream has it as its one event"
)
ONE: Final = anyway("one picture is made unless said")
NONE_BEFORE: Final = anyway("no unfinished pictures come unless asked for", "dashscope", "gemini", "local", "openai")
NONE_LEFT_OUT: Final = anyway("no watermark is what comes unless said", "openai", "gemini", "local")
AS_IT_STANDS: Final = anyway("the prompt is taken as it stands anyway", "local")

plain, streamed = partial(row, BASE), partial(row, STREAMED)


def of_the_picture(base: dict[str, Any], *, square: Idle | None = None) -> tuple[Field, ...]:
    """The rows that generations and edits share for the image, with the fields of `base` in each body."""
    say, declared = partial(row, base), partial(declared_row, GenerationBodySchema, base)
    return (
        say("n", 1, "1", idle=ONE),
        say("n", 2, "several"),
        say("size", "1024x1024", "square", idle=square),
        say("size", "1536x1024", "wide"),
        say("size", "auto", "auto", idle=AUTO),
        declared("quality"),
        say("quality", "auto", "auto", idle=AUTO),
        declared("style"),
        declared("background"),
        say("background", "auto", "auto", idle=AUTO),
        declared("moderation"),
        say("moderation", "auto", "auto", idle=AUTO),
        say("output_format", "png", "png", idle=PNG),
        say("output_format", "jpeg", "jpeg"),
        say("output_format", "webp", "webp"),
        row({**base, "output_format": "jpeg"}, "output_compression", 50, needs="output_format"),
        declared("complexity"),
        declared("frame_count"),
        row({**base, "frame_count": 4}, "frame_duration_ms", 100),
    )


def of_the_answer(base: dict[str, Any], *, idle_stream: Idle = ONE_EVENT) -> tuple[Field, ...]:
    """The rows for the form of the response and for the user."""
    say, declared = partial(row, base), partial(declared_row, GenerationBodySchema, base)
    return (
        say("response_format", "url", "url", idle=HOW_IT_COMES),
        say("response_format", "b64_json", "b64_json", idle=HOW_IT_COMES),
        say("stream", True, idle=idle_stream),
        say("stream", "true", "a string", idle=idle_stream),
        row({**base, "stream": True}, "partial_images", 2, "some"),
        row({**base, "stream": True}, "partial_images", 0, "0", idle=NONE_BEFORE),
        declared("user"),
        declared("safety_identifier"),
        say(UNKNOWN, "mark-new"),
    )


GROUPS: Final = (
    Group(
        "The picture",
        (
            plain("prompt", "mark-cat", instead="A cat"),
            *of_the_picture(BASE, square=SQUARE),
            plain("svg", SVG),
            row({**BASE, "svg": SVG}, "svg.reasoning.effort", "high", instead="low"),
        ),
    ),
    Group("The answer", of_the_answer(BASE)),
)

INPUT: Final[dict[str, Any]] = {
    "model": MODEL,
    "input": {"messages": [{"role": "user", "content": [{"text": "A cat"}]}]},
}
_CONTENT: Final = "input.messages.0.content"


def of_the_messages(base: dict[str, Any]) -> tuple[Field, ...]:
    """The rows of ``input``; the first item of the first message is a text."""
    say = partial(row, base)
    return (
        say(f"{_CONTENT}.0.text", "mark-cat", instead="A cat"),
        say("input.messages.0.role", "system", "not of the user", instead="user"),
        say("input.messages.1", {"role": "user", "content": [{"text": "mark-more"}]}, "a second one"),
        say(f"{_CONTENT}.0.{UNKNOWN}", "mark-new"),
        say(f"input.messages.0.{UNKNOWN}", "mark-new"),
        say(f"input.{UNKNOWN}", "mark-new"),
    )


def of_the_parameters(base: dict[str, Any], *, square: Idle | None = None) -> tuple[Field, ...]:
    """The rows of ``parameters``."""
    say = partial(row, put(base, "parameters", {}))
    return tuple(
        say(f"parameters.{name}", value, kind, idle=idle)
        for name, value, kind, idle in (
            ("n", 1, "1", ONE),
            ("n", 2, "several", None),
            ("negative_prompt", "mark-dog", "", None),
            ("prompt_extend", True, "true", None),
            ("prompt_extend", False, "false", AS_IT_STANDS),
            ("watermark", True, "true", None),
            ("watermark", False, "false", NONE_LEFT_OUT),
            ("size", "1024*1024", "square", square),
            ("size", "1536*1024", "wide", None),
            ("size", "2K", "a label", None),
            ("seed", 7, "", None),
            (UNKNOWN, "mark-new", "", None),
        )
    )


def beside_the_input(base: dict[str, Any]) -> tuple[Field, ...]:
    """The rows of the top-level fields of a body with ``input``."""
    say = partial(row, base)
    return (
        say("response_format", "url", "url", idle=HOW_IT_COMES),
        say("response_format", "b64_json", "b64_json", idle=HOW_IT_COMES),
        say("stream", True, idle=ONE_EVENT),
        say("user", "mark-user"),
        say(UNKNOWN, "mark-new"),
    )


INPUT_GROUPS: Final = (
    Group(
        "input",
        (
            *of_the_messages(INPUT),
            row(INPUT, f"{_CONTENT}.1", {"text": "mark-more"}, "a second text"),
        ),
    ),
    Group("parameters", of_the_parameters(INPUT, square=SQUARE)),
    Group("Beside them", beside_the_input(INPUT)),
)
