"""The fields of ``POST /v1beta/models/{model}:generateContent``, in camelCase.

Source: google-genai 3.4, types.py (GenerateContentConfig, GenerationConfig, Content, Tool and the types that they use) and
models.py (_GenerateContentConfig_to_mldev), which defines the place of each in the body.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.declared import add_declared, declared_row
from qa.matrix.fields import PDF, PICTURE, PLAIN, SOUND, Field, Group, anyway, issuer_only, put, row
from tornado_gate_gemini.fields.generate import GenerateBodySchema

BASE: Final[dict[str, Any]] = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
TOOL: Final[dict[str, Any]] = {
    "functionDeclarations": [
        {"name": "get_weather", "parametersJsonSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    ]
}
ASKING: Final[dict[str, Any]] = {
    "contents": [{"role": "user", "parts": [{"text": "What are the weather and the time?"}]}]
}
WITH_TOOL: Final = {**ASKING, "tools": [TOOL]}
QUIET: Final = {**BASE, "tools": [TOOL]}
WITH_TOOLS: Final = {
    **ASKING,
    "tools": [{"functionDeclarations": [*TOOL["functionDeclarations"], {"name": "get_time"}]}],
}
SAYING: Final[dict[str, Any]] = {"contents": [{"role": "user", "parts": [{"text": "say one mark-stop two"}]}]}
TURNS: Final[dict[str, Any]] = {
    "contents": [
        {"role": "user", "parts": [{"text": "Hello"}]},
        {"role": "model", "parts": [{"text": "Hi"}]},
        {"role": "user", "parts": [{"text": "How are you?"}]},
    ]
}
CALLED: Final[dict[str, Any]] = {
    **WITH_TOOL,
    "contents": [
        {"role": "user", "parts": [{"text": "What is the weather?"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "call_1", "name": "get_weather", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "call_1", "name": "get_weather", "response": {"result": "Sunny"}}}],
        },
    ],
}
IMAGE: Final[dict[str, Any]] = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
FILE: Final[dict[str, Any]] = {"inlineData": {"mimeType": "application/pdf", "data": PDF}}
SOUND_PART: Final[dict[str, Any]] = {"inlineData": {"mimeType": "audio/wav", "data": SOUND}}
WITH_IMAGE: Final = put(BASE, "contents.0.parts.1", IMAGE)
SCHEMA: Final[dict[str, Any]] = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}
AS_JSON: Final = {**BASE, "generationConfig": {"responseMimeType": "application/json"}}
VOICE: Final = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "mark-voice"}}}


def declared_in(base: Any, at: str) -> Field:
    return declared_row(GenerateBodySchema, base, at)


declared = partial(declared_in, BASE)
quiet = partial(row, QUIET)
plain, tooled, turns, called = (partial(row, base) for base in (BASE, WITH_TOOL, TURNS, CALLED))


def config(name: str, value: Any, kind: str = "", **rest: Any) -> Any:
    """A row of ``generationConfig``."""
    return plain(f"generationConfig.{name}", value, kind, **rest)


_ISSUER: Final = issuer_only(
    "the signature belongs to the upstream that issued it; for any other the core takes it out"
)
_MODE: Final = "toolConfig.functionCallingConfig"
_TOOLS: Final[tuple[tuple[str, Any], ...]] = (
    ("retrieval", {"vertexAiSearch": {"datastore": "mark-store"}}),
    ("computerUse", {"environment": "ENVIRONMENT_BROWSER"}),
    ("fileSearch", {"fileSearchStoreNames": ["mark-store"]}),
    ("googleSearch", {}),
    ("googleMaps", {}),
    ("codeExecution", {}),
    ("enterpriseWebSearch", {}),
    ("googleSearchRetrieval", {}),
    ("parallelAiSearch", {}),
    ("urlContext", {}),
    ("mcpServers", [{"name": "mark-server"}]),
    ("exaAiSearch", {}),
)
_PART_MEMBERS: Final = (
    "mediaResolution",
    "videoMetadata",
    "partMetadata",
    "audioTranscription",
    "mediaProcessing",
    "speechMetadata",
    "documentMetadata",
    "spreadsheetMetadata",
    "audioMetadata",
)

_GROUPS: Final = (
    Group(
        "generationConfig",
        (
            declared("generationConfig.maxOutputTokens"),
            declared("generationConfig.temperature"),
            declared("generationConfig.topP"),
            declared("generationConfig.topK"),
            declared("generationConfig.candidateCount"),
            row(SAYING, "generationConfig.stopSequences", ["mark-stop"]),
            declared("generationConfig.seed"),
            declared("generationConfig.presencePenalty"),
            declared("generationConfig.frequencyPenalty"),
            declared("generationConfig.responseLogprobs"),
            row({**BASE, "generationConfig": {"responseLogprobs": True}}, "generationConfig.logprobs", 2),
            config("responseMimeType", "text/plain", "text/plain", idle=anyway("text is what is answered unless said")),
            config("responseMimeType", "application/json", "application/json"),
            config("responseMimeType", "text/x.enum", "text/x.enum"),
            row(AS_JSON, "generationConfig.responseSchema", SCHEMA),
            row(AS_JSON, "generationConfig.responseJsonSchema", {"type": "object", "properties": {}}),
            config("responseModalities", ["TEXT", "IMAGE"], "IMAGE"),
            config("responseModalities", ["AUDIO"], "AUDIO"),
            config("speechConfig", VOICE),
            declared("generationConfig.imageConfig"),
            config("thinkingConfig", {"thinkingBudget": 2048}, "thinkingBudget"),
            config(
                "thinkingConfig",
                {"thinkingBudget": 0},
                "thinkingBudget 0",
                instead={"thinkingBudget": 2048},
                idle=anyway("some models never think", "anthropic"),
            ),
            config("thinkingConfig", {"thinkingLevel": "LOW"}, "thinkingLevel"),
            config("thinkingConfig", {"includeThoughts": True}, "includeThoughts"),
            declared("generationConfig.mediaResolution"),
            declared("generationConfig.audioTimestamp"),
            declared("generationConfig.audioTranscriptionConfig"),
            declared("generationConfig.translationConfig"),
            declared("generationConfig.responseFormat"),
            declared("generationConfig.enableAffectiveDialog"),
            declared("generationConfig.enableEnhancedCivicAnswers"),
            declared("generationConfig.routingConfig"),
            declared("generationConfig.modelSelectionConfig"),
            declared("generationConfig.continuationToken"),
        ),
    ),
    Group(
        "tools and toolConfig",
        (
            row(ASKING, "tools", [TOOL], "functionDeclarations"),
            declared_in(WITH_TOOL, "tools.0.functionDeclarations.0.description"),
            tooled(
                "tools.0.functionDeclarations.0.parametersJsonSchema",
                {"type": "object", "properties": {"mark-place": {"type": "string"}}},
                instead=TOOL["functionDeclarations"][0]["parametersJsonSchema"],
            ),
            row(
                {**BASE, "tools": [{"functionDeclarations": [{"name": "get_weather"}]}]},
                "tools.0.functionDeclarations.0.parameters",
                {"type": "OBJECT", "properties": {"mark-place": {"type": "STRING"}}},
            ),
            declared_in(WITH_TOOL, "tools.0.functionDeclarations.0.response"),
            declared_in(WITH_TOOL, "tools.0.functionDeclarations.0.responseJsonSchema"),
            declared_in(WITH_TOOL, "tools.0.functionDeclarations.0.behavior"),
            *(plain("tools", [{name: value}], name) for name, value in _TOOLS),
            tooled(_MODE, {"mode": "AUTO"}, "AUTO", idle=anyway("functions are called when the model wants to")),
            quiet(_MODE, {"mode": "ANY"}, "ANY"),
            tooled(_MODE, {"mode": "NONE"}, "NONE"),
            tooled(_MODE, {"mode": "VALIDATED"}, "VALIDATED"),
            row(
                put(WITH_TOOLS, _MODE, {"mode": "ANY"}),
                f"{_MODE}.allowedFunctionNames",
                ["get_time"],
            ),
            row(
                put(WITH_TOOL, _MODE, {"mode": "ANY"}),
                f"{_MODE}.streamFunctionCallArguments",
                True,
            ),
            declared_in(WITH_TOOL, "toolConfig.retrievalConfig"),
            declared_in(WITH_TOOL, "toolConfig.includeServerSideToolInvocations"),
        ),
    ),
    Group(
        "contents and systemInstruction",
        (
            plain("systemInstruction", {"parts": [{"text": "mark-rule"}]}),
            plain("contents.0.parts.0.text", "mark-hello", instead="Hello"),
            plain("contents.0.parts.1", {"text": "mark-more"}, "text"),
            plain("contents.0.parts.1", IMAGE, "inlineData, image"),
            plain("contents.0.parts.1", SOUND_PART, "inlineData, audio"),
            plain("contents.0.parts.1", FILE, "inlineData, PDF"),
            plain("contents.0.parts.1", {"inlineData": {"mimeType": "text/plain", "data": PLAIN}}, "inlineData, text"),
            plain("contents.0.parts.1", {"inlineData": {"mimeType": "video/mp4", "data": SOUND}}, "inlineData, video"),
            declared_in(WITH_IMAGE, "contents.0.parts.1.inlineData.displayName"),
            plain(
                "contents.0.parts.1",
                {"fileData": {"mimeType": "image/png", "fileUri": "https://pictures.example/mark-picture.png"}},
                "fileData, link",
            ),
            plain(
                "contents.0.parts.1",
                {
                    "fileData": {
                        "mimeType": "application/pdf",
                        "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/mark-file",
                    }
                },
                "fileData, stored",
            ),
            *(declared_in(WITH_IMAGE, f"contents.0.parts.1.{name}") for name in _PART_MEMBERS),
            turns("contents.1.parts.0.text", "mark-hi", "of the model", instead="Hi"),
            turns(
                "contents.1.parts",
                [{"text": "mark-thought", "thought": True}, {"text": "Hi"}],
                "thought",
                instead=[{"text": "Hi"}],
            ),
            turns("contents.1.parts.0.thoughtSignature", "bWFyay1zaWduYXR1cmU=", "text", idle=_ISSUER),
            called("contents.1.parts.0.thoughtSignature", "bWFyay1zaWduYXR1cmU=", "functionCall", idle=_ISSUER),
            called("contents.1.parts.0.functionCall.args", {"city": "mark-city"}, instead={}),
            declared_in(CALLED, "contents.1.parts.0.functionCall.partialArgs"),
            declared_in(CALLED, "contents.1.parts.0.functionCall.willContinue"),
            called(
                "contents.2.parts.0.functionResponse.response", {"result": "mark-sunny"}, instead={"result": "Sunny"}
            ),
            called("contents.2.parts.0.functionResponse.parts", [IMAGE]),
            declared_in(CALLED, "contents.2.parts.0.functionResponse.willContinue"),
            declared_in(CALLED, "contents.2.parts.0.functionResponse.scheduling"),
            turns(
                "contents.1.parts.1", {"executableCode": {"language": "PYTHON", "code": "mark-code"}}, "executableCode"
            ),
            turns(
                "contents.1.parts.1",
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "mark-output"}},
                "codeExecutionResult",
            ),
            turns("contents.1.parts.1", {"toolCall": {"toolType": "mark-tool"}}, "toolCall"),
            turns("contents.1.parts.1", {"toolResponse": {"toolType": "mark-tool"}}, "toolResponse"),
        ),
    ),
    Group(
        "Beside them",
        (
            declared("safetySettings"),
            plain("cachedContent", "cachedContents/mark-cache"),
            declared("labels"),
            declared("serviceTier"),
            declared("store"),
            declared("modelArmorConfig"),
            declared("outputConfig"),
        ),
    ),
)
GROUPS: Final = add_declared(
    _GROUPS, GenerateBodySchema, {"": BASE, "generationConfig.": BASE, "contents.0.parts.1.": WITH_IMAGE}
)
"""With a row for each other member that is declared with an example."""
