"""Which model does what."""

from __future__ import annotations

import pytest

import tornado_gate_local as local
from tornado_gate import ProviderEntry
from tornado_gate_local import media

CHAT = {"chat", "count_tokens"}


@pytest.mark.parametrize(
    ("model", "operations"),
    [
        ("local-chat", CHAT),
        ("local-chat-large", CHAT),
        ("local-embed", {"embeddings"}),
        ("local-embed-2", {"embeddings"}),
        ("local-moderation", {"moderation"}),
        ("text-moderation-latest", {"moderation"}),
        ("text-moderation-stable", {"moderation"}),
        ("omni-moderation-latest", {"moderation"}),
        ("local-image", {"images", "image_edits"}),
        ("local-image-1", {"images", "image_edits"}),
        ("local-image-edit", {"images", "image_edits"}),
        ("local-tts", {"speech"}),
        ("local-video", {"videos"}),
        ("local-video-1", {"videos"}),
        ("local-realtime", {"realtime"}),
        ("whatever-you-like", CHAT),
    ],
)
def test_the_beginning_of_a_name_says_what_a_model_does(model, operations):
    assert local.configure(ProviderEntry(name="local")).get_operations(model) == operations


def test_without_the_media_package_only_operations_on_texts_are_supported(monkeypatch):
    monkeypatch.setattr(media, "find_spec", lambda name: None)
    capabilities = local.configure(ProviderEntry(name="local"))
    assert capabilities.operations == CHAT | {"embeddings", "moderation"}
    for model in ("local-image-1", "local-video", "local-tts", "local-realtime"):
        assert capabilities.get_operations(model) == set()


def test_without_the_media_package_errors_for_its_models_name_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(media, "find_spec", lambda name: None)
    capabilities = local.configure(ProviderEntry(name="local"))
    assert capabilities.find_missing("local-image-1", ("images",)) == "Run: pip install tornado-gate-demo-media"
    assert capabilities.find_missing("local-image-1", ("image_edits", "speech")) == media.INSTALL
    assert capabilities.find_missing("local-image-1", ("chat",)) == ""
    assert capabilities.find_missing("local-chat", ("images",)) == ""


def test_with_the_media_package_nothing_is_missing():
    assert local.configure(ProviderEntry(name="local")).missing_operations == {}


def test_a_video_whose_beginning_is_uncertain_may_be_begun_again():
    assert local.configure(ProviderEntry(name="local")).videos_may_repeat
