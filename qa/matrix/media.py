"""The ways beyond chat, and their upstreams."""

from __future__ import annotations

from typing import Any, Final

from qa.matrix import audio, edits, embeddings, images, made, moderations
from qa.matrix.fields import MODEL
from qa.matrix.ways import Upstream, Way

_OPENAI: Final = {"preset": "openai"}
_SDK: Final = {"x-stainless-lang": "python", "user-agent": "OpenAI/Python 3.52.0"}


def _openai(model: str, **more: Any) -> Upstream:
    return Upstream(name=more.pop("name", "openai"), plugin="openai", model=model, settings=_OPENAI, **more)


def _gemini(model: str, name: str = "gemini") -> Upstream:
    return Upstream(name=name, plugin="gemini", model=model)


def _imagen(model: str = "imagen-4.0-generate-001", name: str = "imagen") -> Upstream:
    return Upstream(name=name, plugin="gemini", model=model)


def _dashscope(model: str, name: str = "dashscope", **settings: Any) -> Upstream:
    return Upstream(name=name, plugin="dashscope", model=model, settings=settings)


def _local(model: str) -> Upstream:
    return Upstream(name="local", plugin="local", model=model)


def _compatible(model: str) -> Upstream:
    return Upstream(name="compatible", plugin="openai", model=model, base_url="https://upstream.test/v1")


def _taken_apart(model: str) -> Upstream:
    """OpenAI as behind a plugin that supports no caller's wire format."""
    return _openai(model, name="openai, translated", translated=True)


_GPT_IMAGE: Final = _openai("gpt-image-1", facts={"image_family": "three"})
_TASK: Final = "dashscope, tasks"
_PAINTERS: Final = (
    _GPT_IMAGE,
    _gemini("gemini-3-pro-image-preview"),
    _imagen(),
    _dashscope("qwen-image-2.0"),
    _dashscope("wan2.5-t2i-preview", _TASK),
    _local("local-image"),
)
_MORE_PAINTERS: Final = (
    _openai("gpt-image-1", name="openai, no family"),
    _openai("gpt-image-1", name="openai, translated", translated=True),
    _openai("gpt-image-2", name="openai, gpt-image-2"),
    _openai("dall-e-2", name="openai, dall-e-2"),
    _openai("dall-e-2", name="openai, family one", facts={"image_family": "one"}),
    _openai("dall-e-3", name="openai, family two", facts={"image_family": "two"}),
    _compatible("some-painter"),
    _gemini("gemini-2.5-flash-image", "gemini 2.5"),
    _imagen("imagen-3.0-generate-002", "imagen 3"),
    _dashscope("qwen-image-plus", "dashscope, qwen-image-plus"),
    _dashscope("qwen-image-plus", "dashscope, qwen-image-plus by task", asynchronous=["*"]),
    _dashscope("wan2.2-t2i-flash", "dashscope, wan2.2"),
    _dashscope("wan2.7-image-pro", "dashscope, wan2.7"),
    _dashscope("wan2.7-image", "dashscope, wan2.7 by task", asynchronous=["*"]),
)
_RETOUCHERS: Final = (
    _GPT_IMAGE,
    _gemini("gemini-3-pro-image-preview"),
    _dashscope("qwen-image-edit-plus"),
    _dashscope("wan2.5-i2i-preview", _TASK),
    _local("local-image"),
)
_MORE_RETOUCHERS: Final = (
    _openai("gpt-image-1", name="openai, no family"),
    _openai("gpt-image-1", name="openai, translated", translated=True),
    _openai("dall-e-2", name="openai, dall-e-2"),
    _compatible("some-painter"),
    _gemini("gemini-2.5-flash-image", "gemini 2.5"),
    _dashscope("qwen-image-edit", "dashscope, qwen-image-edit"),
    _dashscope("qwen-image-2.0", "dashscope, qwen-image-2.0"),
    _dashscope("wanx2.1-imageedit", "dashscope, wanx2.1-imageedit"),
    _dashscope("wan2.6-image", "dashscope, wan2.6-image"),
)

MEDIA_WAYS: Final = (
    Way(
        name="embeddings",
        title="POST /v1/embeddings",
        path="/v1/embeddings",
        groups=embeddings.GROUPS,
        sdk="openai",
        upstreams=(_openai("text-embedding-3-large"), _gemini("gemini-embedding-001"), _local("local-embed")),
        variants=(_taken_apart("text-embedding-3-large"), _compatible("some-embedder")),
    ),
    Way(
        name="embedContent",
        title="POST /v1beta/models/{model}:embedContent",
        path="/v1beta/models/{model}:embedContent",
        groups=embeddings.CONTENT_GROUPS,
        sdk="google-genai",
        upstreams=(_openai("text-embedding-3-large"), _gemini("gemini-embedding-001"), _local("local-embed")),
        variants=(),
        path_arguments={"model": MODEL},
    ),
    Way(
        name="batchEmbedContents",
        title="POST /v1beta/models/{model}:batchEmbedContents",
        path="/v1beta/models/{model}:batchEmbedContents",
        groups=embeddings.BATCH_GROUPS,
        sdk="google-genai",
        upstreams=(_openai("text-embedding-3-large"), _gemini("gemini-embedding-001"), _local("local-embed")),
        variants=(),
        path_arguments={"model": MODEL},
    ),
    Way(
        name="moderations",
        title="POST /v1/moderations",
        path="/v1/moderations",
        groups=moderations.GROUPS,
        sdk="openai",
        upstreams=(_openai("omni-moderation-latest"), _local("local-moderation")),
        variants=(_taken_apart("omni-moderation-latest"), _compatible("some-judge")),
    ),
    Way(
        name="images",
        title="POST /v1/images/generations",
        note="with `prompt`",
        path="/v1/images/generations",
        groups=images.GROUPS,
        sdk="openai",
        upstreams=_PAINTERS,
        variants=_MORE_PAINTERS,
    ),
    Way(
        name="images, input",
        title="POST /v1/images/generations",
        note="with `input`",
        path="/v1/images/generations",
        groups=images.INPUT_GROUPS,
        sdk="dashscope",
        upstreams=_PAINTERS,
        variants=_MORE_PAINTERS,
    ),
    Way(
        name="edits",
        title="POST /v1/images/edits",
        note="as a form",
        path="/v1/images/edits",
        groups=edits.FORM_GROUPS,
        sdk="openai",
        upstreams=_RETOUCHERS,
        variants=_MORE_RETOUCHERS,
        form=True,
        fetches=True,
    ),
    Way(
        name="edits, JSON",
        title="POST /v1/images/edits",
        note="with `images`",
        path="/v1/images/edits",
        groups=edits.BODY_GROUPS,
        sdk="openai",
        upstreams=_RETOUCHERS,
        variants=_MORE_RETOUCHERS,
        fetches=True,
    ),
    Way(
        name="edits, input",
        title="POST /v1/images/edits",
        note="with `input`",
        path="/v1/images/edits",
        groups=edits.INPUT_GROUPS,
        sdk="dashscope",
        upstreams=_RETOUCHERS,
        variants=_MORE_RETOUCHERS,
        fetches=True,
    ),
    Way(
        name="generateContent, pictures",
        title="POST /v1beta/models/{model}:generateContent",
        note="of models that make pictures",
        path="/v1beta/models/{model}:generateContent",
        groups=made.PICTURE_GROUPS,
        sdk="google-genai",
        upstreams=_PAINTERS,
        variants=_MORE_PAINTERS,
        path_arguments={"model": MODEL},
        fetches=True,
    ),
    Way(
        name="speech",
        title="POST /v1/audio/speech",
        path="/v1/audio/speech",
        groups=audio.SPEECH,
        sdk="openai",
        upstreams=(_openai("gpt-4o-mini-tts"), _gemini("gemini-2.5-flash-preview-tts"), _local("local-tts")),
        variants=(
            _taken_apart("gpt-4o-mini-tts"),
            _compatible("some-speaker"),
            _gemini("gemini-3.8-flash-tts", "gemini 3.8"),
        ),
    ),
    Way(
        name="generateContent, speech",
        title="POST /v1beta/models/{model}:generateContent",
        note="of models that speak",
        path="/v1beta/models/{model}:generateContent",
        groups=made.SPEECH_GROUPS,
        sdk="google-genai",
        upstreams=(_openai("gpt-4o-mini-tts"), _gemini("gemini-2.5-flash-preview-tts"), _local("local-tts")),
        variants=(_compatible("tts-1"),),
        path_arguments={"model": MODEL},
        fetches=True,
    ),
    Way(
        name="transcriptions",
        title="POST /v1/audio/transcriptions",
        path="/v1/audio/transcriptions",
        groups=audio.TRANSCRIPTION,
        sdk="openai",
        upstreams=(_openai("gpt-4o-transcribe"),),
        variants=(_taken_apart("whisper-1"), _compatible("some-listener")),
        form=True,
    ),
    Way(
        name="translations",
        title="POST /v1/audio/translations",
        path="/v1/audio/translations",
        groups=audio.TRANSLATION,
        sdk="openai",
        upstreams=(_openai("whisper-1"),),
        variants=(_taken_apart("whisper-1"), _compatible("some-listener")),
        form=True,
    ),
)
"""Those that have a table on the page."""

OTHER_WAYS: Final = (
    Way(
        name="engines",
        title="POST /v1/engines/{model}/embeddings",
        path="/v1/engines/{model}/embeddings",
        groups=embeddings.GROUPS,
        sdk="openai",
        upstreams=MEDIA_WAYS[0].upstreams,
        variants=(),
        path_arguments={"model": MODEL},
    ),
    Way(
        name="images, by an SDK",
        title="POST /v1/images/generations",
        note="by OpenAI's SDK",
        path="/v1/images/generations",
        groups=images.GROUPS,
        sdk="openai",
        upstreams=_PAINTERS,
        variants=_MORE_PAINTERS,
        headers=_SDK,
    ),
    Way(
        name="edits, by an SDK",
        title="POST /v1/images/edits",
        note="by OpenAI's SDK",
        path="/v1/images/edits",
        groups=edits.FORM_GROUPS,
        sdk="openai",
        upstreams=_RETOUCHERS,
        variants=_MORE_RETOUCHERS,
        headers=_SDK,
        form=True,
        fetches=True,
    ),
)
"""The same fields in other clothes: no table, but nothing may be silent there either."""
