"""What an entry offers, for which models, and in which wire formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError
from tornado_gate_openai.provider.endpoints import ENDPOINT_OF_FORMAT, OPERATIONS
from tornado_gate_openai.provider.settings import load_presets
from tornado_gate_openai.provider.voices import VOICE_OF_GEMINI

MakeEntry = Callable[..., ProviderEntry]

EVERYTHING = {
    "chat",
    "embeddings",
    "moderation",
    "images",
    "image_edits",
    "speech",
    "transcription",
    "videos",
    "realtime",
}
PICTURES = {"images", "image_edits"}


def test_an_entry_with_only_an_address_offers_everything(entry: MakeEntry) -> None:
    capabilities = plugin.configure(entry("https://h"))
    assert capabilities.operations == EVERYTHING
    assert capabilities.get_operations("whatever") == EVERYTHING
    assert capabilities.inputs_at_once is None
    assert capabilities.speaks == {
        "openai-chat",
        "openai-embeddings",
        "openai-moderations",
        "openai-images",
        "openai-image-edits",
        "openai-speech",
        "openai-transcriptions",
    }


def test_a_setting_narrows_the_operations_and_the_formats(entry: MakeEntry) -> None:
    capabilities = plugin.configure(entry(serves=["embeddings", "image_edits"]))
    assert capabilities.operations == {"embeddings", "image_edits"}
    assert capabilities.speaks == {"openai-embeddings", "openai-image-edits"}


def test_without_chat_no_format_of_chat_is_spoken(entry: MakeEntry) -> None:
    capabilities = plugin.configure(entry(preset="openai", serves=["speech"], responses=True, completions=True))
    assert capabilities.speaks == {"openai-speech"}


def test_a_setting_widens_what_a_preset_serves(entry: MakeEntry) -> None:
    assert plugin.configure(entry(preset="cerebras")).operations == {"chat"}
    assert plugin.configure(entry(preset="cerebras", serves=["chat", "speech"])).operations == {"chat", "speech"}


CHATS = {"chat", "count_tokens"}


@pytest.mark.parametrize(
    ("model", "offered"),
    [
        ("gpt-4o", CHATS),
        ("gpt-5.6-sol", CHATS),
        ("o4-mini", CHATS),
        ("gpt-4o-audio-preview", CHATS),
        ("davinci-002", CHATS),
        ("ft:gpt-4o:acme", CHATS),
        ("dall-e-3", PICTURES),
        ("gpt-image-1-mini", PICTURES),
        ("gpt-image-2.6-flare", PICTURES),
        ("chatgpt-image-latest", PICTURES),
        ("text-embedding-3-large", {"embeddings"}),
        ("text-embedding-ada-002", {"embeddings"}),
        ("omni-moderation-latest", {"moderation"}),
        ("text-moderation-stable", {"moderation"}),
        ("tts-1-hd", {"speech"}),
        ("gpt-4o-mini-tts-2025-12-15", {"speech"}),
        ("whisper-1", {"transcription"}),
        ("gpt-transcribe", {"transcription"}),
        ("gpt-4o-transcribe-diarize", {"transcription"}),
        ("sora-2", {"videos"}),
        ("sora-2-pro-2025-10-06", {"videos"}),
        ("gpt-realtime", {"realtime"}),
        ("gpt-4o-mini-realtime-preview", {"realtime"}),
    ],
)
def test_each_of_openais_models_does_its_own_work(entry: MakeEntry, model: str, offered: set[str]) -> None:
    assert plugin.configure(entry(preset="openai")).get_operations(model) == offered


@pytest.mark.parametrize(
    ("model", "offered"),
    [
        ("text-embedding-3-small", {"embeddings"}),
        ("gpt-4o", {"chat"}),
        ("gpt-4o-mini-tts", {"speech"}),
        ("gpt-image-1", PICTURES),
        ("kokoro-tts", EVERYTHING),
        ("our-model", EVERYTHING),
    ],
)
def test_openais_models_do_their_own_work_at_any_address_and_others_may_do_everything(
    entry: MakeEntry, model: str, offered: set[str]
) -> None:
    assert plugin.configure(entry("https://h")).get_operations(model) == offered


def test_rules_of_an_entry_state_the_operations_of_its_models(entry: MakeEntry) -> None:
    capabilities = plugin.configure(entry("https://h", model_rules={"gpt-4o*": {"operations": ["chat", "speech"]}}))
    assert capabilities.get_operations("gpt-4o") == {"chat", "speech"}
    assert capabilities.get_operations("gpt-5") == {"chat"}


def test_a_deployment_of_azures_may_have_any_name(entry: MakeEntry) -> None:
    capabilities = plugin.configure(entry("https://r.test", preset="azure-openai"))
    assert capabilities.get_operations("our-vectors") == EVERYTHING - {"moderation"}
    assert capabilities.get_operations("gpt-4o") == {"chat"}
    assert capabilities.get_operations("o3-mini") == {"chat"}
    assert capabilities.get_operations("gpt-image-1") == PICTURES
    assert capabilities.get_operations("gpt-4o-mini-tts") == {"speech"}
    assert capabilities.get_operations("sora-2") == {"videos"}


def test_an_entrys_own_patterns_come_before_its_presets(entry: MakeEntry) -> None:
    own = {"gpt-4o-*": ["transcription", "chat"], "*": ["chat", "speech"]}
    capabilities = plugin.configure(entry(preset="openai", models=own))
    assert capabilities.get_operations("gpt-4o-audio") == {*CHATS, "transcription"}
    assert capabilities.get_operations("anything") == {*CHATS, "speech"}
    assert list(capabilities.models)[:2] == ["gpt-4o-*", "*"]


def test_a_pattern_gives_nothing_that_the_entry_does_not_serve(entry: MakeEntry) -> None:
    assert plugin.configure(entry(serves=["chat"], models={"*": ["speech"]})).get_operations("m") == set()


@pytest.mark.parametrize("name", sorted(load_presets()))
def test_every_preset_says_what_it_serves(entry: MakeEntry, name: str) -> None:
    preset = load_presets()[name]
    capabilities = plugin.configure(entry(preset=name))
    counts = {"count_tokens"} if preset.get("input_tokens") else set()
    assert capabilities.operations == {*preset["serves"], *counts}
    assert set(preset["serves"]) <= set(OPERATIONS)
    patterned = set().union(*preset.get("models", {}).values())
    assert patterned <= capabilities.operations
    assert all(
        ENDPOINT_OF_FORMAT[wire_format].operation in capabilities.operations for wire_format in capabilities.speaks
    )


@pytest.mark.parametrize(
    ("settings", "most"), [({"preset": "openai"}, 2048), ({"preset": "openai", "inputs_at_once": 10}, 10)]
)
def test_inputs_at_once_are_the_entrys_or_its_presets(entry: MakeEntry, settings: dict[str, Any], most: int) -> None:
    assert plugin.configure(entry(**settings)).inputs_at_once == most


def test_eight_voices_of_geminis_stand_for_eight_of_openais() -> None:
    assert set(VOICE_OF_GEMINI) == {"Kore", "Aoede", "Charon", "Fenrir", "Puck", "Leda", "Orus", "Zephyr"}
    of_every_model = {"alloy", "ash", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer"}
    assert set(VOICE_OF_GEMINI.values()) == of_every_model - {"alloy"}


@pytest.mark.parametrize(
    ("settings", "path", "message"),
    [
        ({"serves": []}, ("serves",), "must contain at least one operation"),
        ({"serves": ["chat", "vision"]}, ("serves", 1), "must be one of 'chat', 'embeddings'"),
        ({"serves": "chat"}, ("serves",), "list"),
        ({"models": ["gpt-*"]}, ("models",), "mapping"),
        ({"models": {"gpt-*": "chat"}}, ("models", "gpt-*"), "list"),
        ({"models": {"gpt-*": ["chats"]}}, ("models", "gpt-*", 0), "must be one of 'chat'"),
        ({"models": {"": ["chat"]}}, ("models",), "must not contain an empty name"),
        ({"inputs_at_once": 0}, ("inputs_at_once",), "1 or more"),
        ({"inputs_at_once": 1.5}, ("inputs_at_once",), "must be an integer"),
        ({"image_bytes": "gpt-*"}, ("image_bytes",), "list"),
        ({"video_json": "yes"}, ("video_json",), "must be true or false"),
        ({"image_bytes": [""]}, ("image_bytes",), "must not contain an empty name"),
        ({"voices": {"Kore": 1}}, ("voices", "Kore"), "must be a string"),
        ({"voices": {"": "nova"}}, ("voices",), "must not contain an empty name"),
        ({"voice": {}}, ("voice",), "did you mean 'voices'?"),
        ({"serve": ["chat"]}, ("serve",), "did you mean 'serves'?"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(
    entry: MakeEntry, settings: dict[str, Any], path: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(entry(**settings))
    found = dict(caught.value.faults)
    assert message in found[path]
