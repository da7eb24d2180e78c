"""Callers of Anthropic's format: parameters, thinking, content and structured output."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.imitations.calling.places import BMP
from qa.imitations.openai import turns
from qa.imitations.openai.callers import MESSAGES
from qa.imitations.openai.scenario import ALL, BOTH, Scenario
from qa.imitations.openai.scenarios import samples
from qa.imitations.openai.scenarios.samples import EVERY, NEW, O_SERIES, OLD, PDF, SEEING, SOME, SWITCHABLE, THINKERS

_scenario = partial(Scenario, format=MESSAGES)


def _body(content: Any = "What colour is the sky?", **members: Any) -> dict[str, Any]:
    return {"max_tokens": 1000, "messages": [{"role": "user", "content": content}], **members}


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _image(media_type: str = "image/png", data: str = turns.PIXEL) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _document(source: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **members}


_PDF: Final = {"type": "base64", "media_type": "application/pdf", "data": PDF}
_ENABLED: Final = {"type": "enabled", "budget_tokens": 2048}


def _format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "schema": schema}}


PARAMETERS: Final = (
    _scenario(
        name="plain", body=_body(), models=EVERY, apis=ALL, chat={"max_completion_tokens": 1000},
        responses={"max_output_tokens": 1000, "store": False}, then=(turns.ask_again,),
    ),
    _scenario(name="system", body=_body(system="Speak like a pirate"), models=SOME, apis=ALL),
    _scenario(
        name="system blocks", body=_body(system=[_text("Speak like a pirate"), _text("Be brief")]), models=SOME, apis=ALL,
    ),
    _scenario(
        name="temperature where it is accepted", body=_body(temperature=0.5, top_p=0.9), models=OLD, apis=ALL,
        arrives={"temperature": 0.5, "top_p": 0.9},
    ),
    _scenario(
        name="temperature with no effort by default", body=_body(temperature=0.5), models=SWITCHABLE, apis=ALL,
        arrives={"temperature": 0.5},
    ),
    _scenario(
        name="temperature at models that reason", body=_body(temperature=0.5, top_p=0.9),
        models=(*O_SERIES, "gpt-5", "gpt-5.5", "gpt-5.6-sol", "gpt-6-astra"), apis=ALL, lost=("temperature", "top_p"),
        arrives={"temperature": None, "top_p": None},
    ),
    _scenario(
        name="temperature with thinking disabled", body=_body(temperature=0.5, thinking={"type": "disabled"}),
        models=SWITCHABLE, apis=ALL, arrives={"temperature": 0.5},
    ),
    _scenario(
        name="neutral temperature", body=_body(temperature=1), models=("o3", "gpt-5", "gpt-5.5"), apis=ALL,
        mapped=("temperature",),
    ),
    _scenario(name="top_k", body=_body(top_k=5), models=SOME, apis=ALL, lost=("top_k",)),
    _scenario(
        name="four stop sequences at chat", body=_body(stop_sequences=["a", "b", "c", "d"]), models=OLD, apis=("chat",),
        arrives={"stop": ["a", "b", "c", "d"]},
    ),
    _scenario(
        name="six stop sequences", body=_body(stop_sequences=["a", "b", "c", "d", "e", "f"]), models=OLD, apis=("chat",),
        arrives={"stop": ["a", "b", "c", "d"]}, lost=("stop_sequences.4", "stop_sequences.5"),
    ),
    _scenario(
        name="stop sequences at responses", body=_body(stop_sequences=["END"]), models=OLD, apis=("responses",),
        lost=("stop_sequences",),
    ),
    _scenario(
        name="stop sequences at models that reason", body=_body(stop_sequences=["END"]), models=("o3", "gpt-5", *NEW),
        apis=ALL, lost=("stop_sequences",),
    ),
    _scenario(
        name="short user id", body=_body(metadata={"user_id": "user-17"}), models=SOME, apis=ALL,
        arrives={"user": "user-17"},
    ),
    _scenario(
        name="user id over 64 characters", body=_body(metadata={"user_id": "user-" + "7" * 90}), models=EVERY, apis=ALL,
        mapped=("metadata.user_id",),
    ),
    _scenario(
        name="more tokens than the model has", body=_body() | {"max_tokens": 200_000}, models=("gpt-4o",), apis=ALL,
        lost=("max_tokens",), chat={"max_completion_tokens": 16384}, responses={"max_output_tokens": 16384},
    ),
    _scenario(
        name="fewer tokens than responses accepts", body=_body() | {"max_tokens": 5}, models=("gpt-4o", "gpt-5.4"),
        apis=("responses",), lost=("max_tokens",), arrives={"max_output_tokens": 16},
    ),
    _scenario(
        name="one token at chat", body=_body() | {"max_tokens": 1}, models=("gpt-4o",), apis=("chat",),
        arrives={"max_completion_tokens": 1},
    ),
    _scenario(
        name="service tier", body=_body(service_tier="standard_only"), models=("gpt-4o", "gpt-5.4"), apis=ALL,
        lost=("service_tier",),
    ),
    _scenario(
        name="cache control", body=_body([{**_text("Hello"), "cache_control": {"type": "ephemeral"}}]),
        models=("gpt-4o", "gpt-5.4"), apis=ALL, lost=("messages.0.content.0.cache_control",),
    ),
    _scenario(name="cut off", body=_body("cut"), models=SOME, apis=ALL),
    _scenario(name="refused by the model", body=_body("refuse"), models=SOME, apis=ALL, then=(turns.ask_again,)),
    _scenario(name="filtered", body=_body("filter"), models=SOME, apis=ALL),
    _scenario(name="cited", body=_body("cite"), models=SOME, apis=ALL),
    _scenario(
        name="two turns of the caller", body=_body() | {"messages": [
            {"role": "user", "content": "one"}, {"role": "user", "content": "two"}]}, models=SOME, apis=ALL,
    ),
    _scenario(
        name="prefilled answer", body=_body() | {"messages": [
            {"role": "user", "content": "one"}, {"role": "assistant", "content": "The sky is"}]}, models=SOME, apis=ALL,
        lost=("messages.1",),
    ),
)  # fmt: skip

THINKING: Final = (
    _scenario(
        name="thinking with a budget is shown", body=_body(thinking=_ENABLED) | {"max_tokens": 4000}, models=THINKERS,
        apis=("auto", "responses"), path="/v1/responses", arrives={"reasoning.summary": "auto"}, thinking=True,
        then=(turns.ask_again,),
    ),
    _scenario(
        name="summarized thinking is shown", body=_body(thinking={"type": "adaptive", "display": "summarized"}),
        models=("o3", "gpt-5", "gpt-5.5", "gpt-5.6-sol", "gpt-6-astra"), apis=("auto", "responses"), thinking=True,
        path="/v1/responses", arrives={"reasoning.summary": "auto"},
    ),
    _scenario(
        name="adaptive thinking where nothing is thought by default", body=_body(thinking={"type": "adaptive"}),
        models=SWITCHABLE, apis=("auto", "responses"), path="/v1/responses", arrives={"reasoning.effort": "medium"},
    ),
    _scenario(
        name="omitted thinking is not shown", body=_body(thinking={"type": "adaptive", "display": "omitted"}),
        models=("gpt-5", "gpt-5.6-sol"), apis=("responses",), thinking=False, arrives={"reasoning.summary": None},
        mapped=("thinking.display",),
    ),
    _scenario(
        name="thinking at chat", body=_body(thinking=_ENABLED) | {"max_tokens": 4000}, models=("o3", "gpt-5", "gpt-5.4"),
        apis=("chat",), path="/v1/chat/completions", lost=("thinking.display",), arrives={"reasoning_effort": "low"},
    ),
    _scenario(
        name="thinking at a model without", body=_body(thinking=_ENABLED) | {"max_tokens": 4000}, models=OLD, apis=ALL,
        lost=("thinking",),
    ),
    _scenario(
        name="thinking disabled", body=_body(thinking={"type": "disabled"}), models=(*SWITCHABLE, "gpt-5.5"), apis=ALL,
        chat={"reasoning_effort": "none"}, responses={"reasoning.effort": "none"},
    ),
    _scenario(
        name="thinking disabled where it cannot be", body=_body(thinking={"type": "disabled"}),
        models=("o3", "gpt-6-astra"), apis=ALL, lost=("thinking",),
        chat={"reasoning_effort": "low"}, responses={"reasoning.effort": "low"},
    ),
    _scenario(
        name="thinking disabled at a model without", body=_body(thinking={"type": "disabled"}), models=OLD, apis=ALL,
        mapped=("thinking.type",), chat={"reasoning_effort": None}, responses={"reasoning": None},
    ),
    *(
        _scenario(
            name=f"effort {effort}", body=_body(output_config={"effort": effort}), models=models, apis=ALL,
            chat={"reasoning_effort": effort}, responses={"reasoning.effort": effort},
        )
        for effort, models in (("low", THINKERS), ("high", THINKERS), ("xhigh", ("gpt-5.2", "gpt-5.4", "gpt-5.5")))
    ),
    _scenario(
        name="effort max", body=_body(output_config={"effort": "max"}), models=("gpt-5.6-sol", "gpt-6-astra"),
        apis=("auto", "responses"), responses={"reasoning.effort": "max"},
    ),
    _scenario(
        name="effort max at chat", body=_body(output_config={"effort": "max"}), models=("gpt-5.6-sol", "gpt-6-astra"),
        apis=("chat",), chat={"reasoning_effort": "xhigh"}, lost=("output_config.effort",),
    ),
    _scenario(
        name="effort that the model lacks", body=_body(output_config={"effort": "max"}), models=("o3", "gpt-5"), apis=ALL,
        chat={"reasoning_effort": "high"}, responses={"reasoning.effort": "high"}, lost=("output_config.effort",),
    ),
    _scenario(
        name="effort at a model without", body=_body(output_config={"effort": "low"}), models=OLD, apis=ALL,
        lost=("output_config.effort",),
    ),
    _scenario(
        name="thinking of another vendor", body=_body() | {"messages": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "deep thought", "signature": "c2lnbmF0dXJl"}, _text("blue")]},
            {"role": "user", "content": "two"}]},
        models=("gpt-4o", "gpt-5.4"), apis=ALL, lost=("messages.1.content.0",),
    ),
    _scenario(
        name="nothing but thinking", body=_body("exhaust", thinking=_ENABLED) | {"max_tokens": 4000},
        models=("o3", "gpt-5.4", "gpt-5.6-sol"), apis=("auto",), thinking=True, then=(turns.ask_again,),
        later=("messages.1.content.0",),
    ),
    _scenario(
        name="cut off while thinking", body=_body("cut", thinking=_ENABLED) | {"max_tokens": 4000},
        models=("gpt-5.4", "gpt-5.6-sol"), apis=("auto",), thinking=True, then=(turns.ask_again,),
    ),
)  # fmt: skip

CONTENT: Final = (
    _scenario(name="image", body=_body([_text("Look"), _image()]), models=SEEING, apis=ALL),
    _scenario(
        name="image by address", body=_body([_text("Look"), {
            "type": "image", "source": {"type": "url", "url": "https://example.com/sky.png"}}]), models=SEEING, apis=ALL,
    ),
    *(
        _scenario(
            name=f"image of another type, said to be {media_type}", body=_body([_text("Look"), _image(media_type, BMP)]),
            models=("gpt-4o", "gpt-5.4"), apis=ALL, stopped="messages.0.content.1",
        )
        for media_type in ("image/bmp", "image/png")
    ),
    _scenario(
        name="image at a model that cannot see", body=_body([_text("Look"), _image()]), models=("o3-mini",), apis=ALL,
        lost=("messages.0.content.1",),
    ),
    _scenario(
        name="PDF without a name", body=_body([_text("Read"), _document(_PDF)]), models=SEEING, apis=ALL,
    ),
    _scenario(
        name="PDF with a title", body=_body([_text("Read"), _document(_PDF, title="sky.pdf")]), models=SEEING, apis=ALL,
    ),
    _scenario(
        name="PDF by address", body=_body([_text("Read"), _document({"type": "url", "url": "https://example.com/s.pdf"})]),
        models=("gpt-4o", "gpt-5.4"), apis=("auto", "responses"), path="/v1/responses",
    ),
    _scenario(
        name="PDF by address at chat",
        body=_body([_text("Read"), _document({"type": "url", "url": "https://example.com/s.pdf"})]),
        models=("gpt-4o", "gpt-5.4"), apis=("chat",), lost=("messages.0.content.1",),
    ),
    _scenario(
        name="document of plain text", body=_body([_text("Read"), _document(
            {"type": "text", "media_type": "text/plain", "data": "a text about the sky"}, title="sky.txt")]),
        models=("gpt-4o", "o3", "gpt-5.4"), apis=ALL, mapped=("messages.0.content.1.source.data",),
    ),
    _scenario(
        name="context of a document", body=_body([_text("Read"), _document(_PDF, context="from 1990")]),
        models=("gpt-4o", "gpt-5.4"), apis=ALL, lost=("messages.0.content.1.context",),
    ),
    _scenario(
        name="several texts", body=_body([_text("one"), _text("two"), _image(), _text("three")]), models=SEEING, apis=ALL,
    ),
)  # fmt: skip

FORMAT: Final = (
    *(
        _scenario(
            name=f"schema {name}", body=_body("Answer in a form", output_config=_format(schema)),
            models=("gpt-4o", "o3", "gpt-5.4"), apis=ALL, lost=() if strict else ("output_config.format.schema",),
            absent=("unit", "near") if schema is samples.OPTIONAL else (),
            chat={"response_format.type": "json_schema", "response_format.json_schema.strict": strict},
            responses={"text.format.type": "json_schema", "text.format.strict": strict},
        )
        for name, schema, strict in (
            ("closed", samples.CLOSED, True),
            ("open but all required", samples.CITY, True),
            ("with optional properties", samples.OPTIONAL, True),
            ("with optional properties and a length", samples.OPEN, False),
            ("nested", samples.NESTED, True),
            ("recursive", samples.RECURSIVE, True),
            ("with definitions", samples.DEFINED, True),
            ("too deep for strict", samples.nest(12), False),
            ("deep", samples.nest(9), True),
            ("with too many values for strict", samples.make_wide(1200), False),
            ("with many values", samples.make_wide(900), True),
        )
    ),
)  # fmt: skip

SCENARIOS: Final[tuple[Scenario, ...]] = (*PARAMETERS, *THINKING, *CONTENT, *FORMAT)

__all__ = ["BOTH", "SCENARIOS"]
