"""Callers of Gemini's format: parameters, thinking, content and structured output."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.imitations.calling.places import BMP, HEIC, TIFF
from qa.imitations.openai import turns
from qa.imitations.openai.callers import GENERATE
from qa.imitations.openai.scenario import ALL, Scenario
from qa.imitations.openai.scenarios import samples
from qa.imitations.openai.scenarios.samples import EVERY, NEW, O_SERIES, OLD, SEEING, SOME, SWITCHABLE, THINKERS

_scenario = partial(Scenario, format=GENERATE)
_G: Final = "generationConfig"


def _body(*parts: Any, config: Any = None, **members: Any) -> dict[str, Any]:
    body = {"contents": [{"role": "user", "parts": list(parts or ({"text": "What colour is the sky?"},))}], **members}
    return body | ({_G: config} if config else {})


def _data(media_type: str, data: str, **members: Any) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media_type, "data": data, **members}}


PARAMETERS: Final = (
    _scenario(name="plain", body=_body(), models=EVERY, apis=ALL, then=(turns.ask_again,)),
    _scenario(
        name="system", body=_body(systemInstruction={"parts": [{"text": "Speak like a pirate"}]}), models=SOME, apis=ALL,
    ),
    _scenario(
        name="limit", body=_body(config={"maxOutputTokens": 500}), models=SOME, apis=ALL,
        chat={"max_completion_tokens": 500}, responses={"max_output_tokens": 500},
    ),
    _scenario(
        name="sampling", body=_body(config={"temperature": 0.4, "topP": 0.8}), models=OLD, apis=ALL,
        arrives={"temperature": 0.4, "top_p": 0.8},
    ),
    _scenario(
        name="sampling at models that reason", body=_body(config={"temperature": 0.4, "topP": 0.8}),
        models=(*O_SERIES, "gpt-5", "gpt-5.5", "gpt-5.6-sol"), apis=ALL, lost=(f"{_G}.temperature", f"{_G}.topP"),
    ),
    _scenario(
        name="sampling without thinking", body=_body(config={
            "temperature": 0.4, "thinkingConfig": {"thinkingBudget": 0}}), models=SWITCHABLE, apis=ALL,
        arrives={"temperature": 0.4}, mapped=(f"{_G}.thinkingConfig.thinkingBudget",),
    ),
    _scenario(
        name="penalties and seed at chat", body=_body(config={
            "presencePenalty": 0.5, "frequencyPenalty": 0.25, "seed": 7}), models=OLD, apis=("chat",),
        arrives={"presence_penalty": 0.5, "frequency_penalty": 0.25, "seed": 7},
    ),
    _scenario(
        name="penalties and seed at responses", body=_body(config={
            "presencePenalty": 0.5, "frequencyPenalty": 0.25, "seed": 7}), models=OLD, apis=("responses",),
        lost=(f"{_G}.presencePenalty", f"{_G}.frequencyPenalty", f"{_G}.seed"),
    ),
    _scenario(
        name="penalties at models that reason", body=_body(config={"presencePenalty": 0.5, "frequencyPenalty": 0.25}),
        models=("o3", "gpt-5", "gpt-5.4", "gpt-5.6-sol"), apis=ALL, lost=(f"{_G}.presencePenalty", f"{_G}.frequencyPenalty"),
    ),
    _scenario(
        name="six stop sequences", body=_body(config={"stopSequences": ["a", "b", "c", "d", "e", "f"]}), models=OLD,
        apis=("chat",), lost=(f"{_G}.stopSequences.4", f"{_G}.stopSequences.5"),
    ),
    _scenario(
        name="stop sequences at models that reason", body=_body(config={"stopSequences": ["END"]}),
        models=("o3", "gpt-5", "gpt-5.4"), apis=ALL, lost=(f"{_G}.stopSequences",),
    ),
    _scenario(name="topK", body=_body(config={"topK": 5}), models=SOME, apis=ALL, lost=(f"{_G}.topK",)),
    _scenario(
        name="log probabilities", body=_body(config={"responseLogprobs": True, "logprobs": 3}), models=OLD, apis=ALL,
        arrives={"top_logprobs": 3},
    ),
    _scenario(
        name="log probabilities at models that reason", body=_body(config={"responseLogprobs": True, "logprobs": 3}),
        models=("o3", "gpt-5", "gpt-5.5"), apis=ALL, lost=(f"{_G}.responseLogprobs", f"{_G}.logprobs"),
    ),
    _scenario(
        name="two candidates at responses", body=_body(config={"candidateCount": 2}), models=("gpt-4o", "gpt-5.4"),
        apis=("responses",), lost=(f"{_G}.candidateCount",),
    ),
    _scenario(
        name="safety settings", body=_body(safetySettings=[
            {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]), models=("gpt-4o", "gpt-5.4"), apis=ALL,
        lost=("safetySettings",),
    ),
    _scenario(
        name="text as modality", body=_body(config={"responseModalities": ["TEXT"]}), models=SOME, apis=ALL,
        mapped=(f"{_G}.responseModalities.0",),
    ),
    _scenario(name="cut off", body=_body({"text": "cut"}), models=SOME, apis=ALL),
    _scenario(name="refused by the model", body=_body({"text": "refuse"}), models=SOME, apis=ALL),
    _scenario(name="filtered", body=_body({"text": "filter"}), models=SOME, apis=ALL),
)  # fmt: skip

THINKING: Final = (
    _scenario(
        name="thoughts are shown", body=_body(config={"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048}}),
        models=THINKERS, apis=("auto", "responses"), path="/v1/responses", thinking=True, then=(turns.ask_again,),
    ),
    _scenario(
        name="thoughts are shown at the default effort", body=_body(config={"thinkingConfig": {"includeThoughts": True}}),
        models=("o3", "gpt-5", "gpt-5.5", "gpt-5.6-sol"), apis=("auto", "responses"), path="/v1/responses", thinking=True,
    ),
    _scenario(
        name="thoughts at chat", body=_body(config={"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048}}),
        models=("o3", "gpt-5", "gpt-5.4"), apis=("chat",), lost=(f"{_G}.thinkingConfig.includeThoughts",),
    ),
    _scenario(
        name="thoughts at a model without", body=_body(config={"thinkingConfig": {"includeThoughts": True}}), models=OLD,
        apis=ALL, lost=(f"{_G}.thinkingConfig.includeThoughts",),
    ),
    *(
        _scenario(
            name=f"thinking level {level}", body=_body(config={"thinkingConfig": {"thinkingLevel": level.upper()}}),
            models=THINKERS, apis=ALL, chat={"reasoning_effort": level}, responses={"reasoning.effort": level},
        )
        for level in ("low", "medium", "high")
    ),
    _scenario(
        name="thinking level minimal", body=_body(config={"thinkingConfig": {"thinkingLevel": "MINIMAL"}}),
        models=("gpt-5", "gpt-5-mini"), apis=ALL, chat={"reasoning_effort": "minimal"},
    ),
    _scenario(
        name="thinking level minimal that the model lacks",
        body=_body(config={"thinkingConfig": {"thinkingLevel": "MINIMAL"}}),
        models=("o3", "gpt-5.1", *NEW), apis=ALL, lost=(f"{_G}.thinkingConfig",),
        chat={"reasoning_effort": "low"}, responses={"reasoning.effort": "low"},
    ),
    _scenario(
        name="no thinking", body=_body(config={"thinkingConfig": {"thinkingBudget": 0}}), models=(*SWITCHABLE, "gpt-5.5"),
        apis=ALL, chat={"reasoning_effort": "none"}, responses={"reasoning.effort": "none"},
        mapped=(f"{_G}.thinkingConfig.thinkingBudget",),
    ),
    _scenario(
        name="no thinking at models that always think", body=_body(config={"thinkingConfig": {"thinkingBudget": 0}}),
        models=("o3", "gpt-5", "gpt-6-astra"), apis=ALL, lost=(f"{_G}.thinkingConfig",),
    ),
    _scenario(
        name="no thinking at a model without", body=_body(config={"thinkingConfig": {"thinkingBudget": 0}}), models=OLD,
        apis=ALL, mapped=(f"{_G}.thinkingConfig.thinkingBudget",), chat={"reasoning_effort": None},
    ),
    _scenario(
        name="a budget that the model chooses", body=_body(config={
            "thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}}), models=("o3", "gpt-5", "gpt-5.6-sol"),
        apis=("auto", "responses"), thinking=True, mapped=(f"{_G}.thinkingConfig.thinkingBudget",),
    ),
)  # fmt: skip

CONTENT: Final = (
    _scenario(name="image", body=_body({"text": "Look"}, _data("image/png", turns.PIXEL)), models=SEEING, apis=ALL),
    _scenario(
        name="image said to be of another type", body=_body({"text": "Look"}, _data("image/heic", turns.PIXEL)),
        models=("gpt-4o", "gpt-5.4"), apis=ALL, mapped=("contents.0.parts.1.inlineData.mimeType",),
    ),
    *(
        _scenario(
            name=f"image of another type: {data}, said to be {media_type}",
            body=_body({"text": "Look"}, _data(media_type, image)),
            models=("gpt-4o", "gpt-5.4"), apis=ALL, stopped="contents.0.parts.1",
        )
        for data, image in (("BMP", BMP), ("TIFF", TIFF), ("HEIC", HEIC))
        for media_type in (f"image/{data.lower()}", "image/png")
    ),
    _scenario(
        name="sound of another type", body=_body({"text": "Listen"}, _data("audio/flac", samples.WAV)), models=("gpt-audio",),
        apis=("auto", "chat"), stopped="contents.0.parts.1",
    ),
    _scenario(
        name="image at a model that cannot see", body=_body({"text": "Look"}, _data("image/png", turns.PIXEL)),
        models=("o3-mini",), apis=ALL, lost=("contents.0.parts.1",),
    ),
    _scenario(
        name="PDF", body=_body({"text": "Read"}, _data("application/pdf", samples.PDF)), models=SEEING, apis=ALL,
    ),
    _scenario(
        name="PDF with a name", body=_body({"text": "Read"}, _data("application/pdf", samples.PDF, displayName="s.pdf")),
        models=SEEING, apis=ALL,
    ),
    _scenario(
        name="text file", body=_body({"text": "Read"}, _data("text/plain", samples.TEXT_FILE)),
        models=("gpt-4o", "gpt-5.4"), apis=ALL, mapped=(r"contents\.0\.parts\.1\.inlineData\..*",),
    ),
    _scenario(
        name="CSV file", body=_body({"text": "Read"}, _data("text/csv", samples.TEXT_FILE)),
        models=("gpt-4o", "gpt-5.4"), apis=ALL, mapped=(r"contents\.0\.parts\.1\.inlineData\..*",),
    ),
    _scenario(
        name="spreadsheet", body=_body({"text": "Read"}, _data(
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", samples.TEXT_FILE)),
        models=("gpt-4o", "gpt-5.4"), apis=("auto", "responses"), path="/v1/responses",
    ),
    _scenario(
        name="spreadsheet at chat", body=_body({"text": "Read"}, _data(
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", samples.TEXT_FILE)),
        models=("gpt-4o", "gpt-5.4"), apis=("chat",), stopped="contents.0.parts.1",
    ),
    _scenario(
        name="video", body=_body({"text": "Look"}, _data("video/mp4", samples.TEXT_FILE)), models=("gpt-4o", "gpt-5.4"),
        apis=ALL, lost=("contents.0.parts.1",),
    ),
    _scenario(
        name="audio at a model that cannot hear", body=_body({"text": "Listen"}, _data("audio/wav", samples.WAV)),
        models=("gpt-4o", "gpt-5", "gpt-5.4"), apis=ALL, lost=("contents.0.parts.1",),
    ),
    _scenario(
        name="audio", body=_body({"text": "Listen"}, _data("audio/wav", samples.WAV)), models=("gpt-audio",),
        apis=("auto", "chat"), mapped=("contents.0.parts.1.inlineData.mimeType",),
    ),
    _scenario(
        name="file by address", body=_body({"text": "Read"}, {"fileData": {
            "mimeType": "application/pdf", "fileUri": "https://example.com/s.pdf"}}), models=("gpt-4o", "gpt-5.4"),
        apis=("auto", "responses"), path="/v1/responses", mapped=(r".*\.mimeType",),
    ),
    _scenario(
        name="image by address", body=_body({"text": "Look"}, {"fileData": {
            "mimeType": "image/png", "fileUri": "https://example.com/s.png"}}), models=SEEING, apis=ALL,
        mapped=(r".*\.mimeType",),
    ),
)  # fmt: skip

_JSON: Final = {"responseMimeType": "application/json"}
FORMAT: Final = (
    _scenario(
        name="JSON without a schema", body=_body({"text": "Name a city"}, config=_JSON), models=SOME, apis=ALL,
    ),
    _scenario(
        name="JSON asked for in the system instruction", body=_body(
            {"text": "Name a city"}, config=_JSON, systemInstruction={"parts": [{"text": "Answer in JSON"}]}),
        models=SOME, apis=ALL,
    ),
    *(
        _scenario(
            name=f"schema {name}", body=_body({"text": "Fill"}, config={**_JSON, "responseJsonSchema": schema}),
            models=("gpt-4o", "gpt-5.4"), apis=ALL, mapped=(f"{_G}.responseJsonSchema.*",),
            lost=(f"{_G}.responseJsonSchema",) if schema is samples.OPEN else (),
            absent=("unit", "near") if schema is samples.OPTIONAL else (),
            chat={"response_format.json_schema.strict": schema is not samples.OPEN},
            responses={"text.format.strict": schema is not samples.OPEN},
        )
        for name, schema in (
            ("open", samples.OPEN), ("with optional properties", samples.OPTIONAL),
            ("closed", samples.CLOSED), ("nested", samples.NESTED), ("defined", samples.DEFINED),
            ("recursive", samples.RECURSIVE),
        )
    ),
    *(
        _scenario(
            name=f"schema {name}", body=_body({"text": "Fill"}, config={**_JSON, "responseJsonSchema": schema}),
            models=("gpt-4o", "gpt-5.4"), apis=ALL, mapped=(f"{_G}.responseJsonSchema.*",), wrapped=True,
            lost=(f"{_G}.responseJsonSchema",) if schema.get("items") is samples.OPEN else (),
            absent=("unit", "near") if schema.get("items") is samples.OPTIONAL else (),
        )
        for name, schema in (
            ("of a list", {"type": "array", "items": samples.CITY}),
            ("of an open list", {"type": "array", "items": samples.OPEN}),
            ("of a list with optional properties", {"type": "array", "items": samples.OPTIONAL}),
            ("of a word", {"type": "string", "enum": ["red", "blue"]}),
            ("of one of two", {"anyOf": [samples.CITY, {"type": "null"}]}),
        )
    ),
    _scenario(
        name="schema in upper case", body=_body({"text": "Fill"}, config={**_JSON, "responseSchema": {
            "type": "OBJECT", "properties": {"city": {"type": "STRING", "nullable": True}, "days": {
                "type": "ARRAY", "items": {"type": "INTEGER"}}}, "required": ["city", "days"],
            "propertyOrdering": ["city", "days"]}}), models=("gpt-4o", "gpt-5.4"), apis=ALL,
        mapped=(f"{_G}.responseSchema.*",),
    ),
    _scenario(
        name="list in upper case", body=_body({"text": "Fill"}, config={**_JSON, "responseSchema": {
            "type": "ARRAY", "items": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}}}),
        models=("gpt-4o", "gpt-5.4"), apis=ALL, mapped=(f"{_G}.responseSchema.*",), wrapped=True,
        absent=("city",),
    ),
    _scenario(
        name="word of an enum", body=_body({"text": "Fill"}, config={
            "responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["red", "blue"]}}),
        models=("gpt-4o", "gpt-5.4"), apis=ALL, lost=(f"{_G}.responseMimeType", f"{_G}.responseSchema"),
    ),
)  # fmt: skip

SCENARIOS: Final[tuple[Scenario, ...]] = (*PARAMETERS, *THINKING, *CONTENT, *FORMAT)
