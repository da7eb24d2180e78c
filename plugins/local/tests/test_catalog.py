"""Which model does what."""

from __future__ import annotations

import pytest

import tornado_gate_local as local
from tornado_gate import ProviderEntry
from tornado_gate_local.media import errors

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
        ("local-video-1", set()),
        ("local-realtime", set()),
        ("whatever-you-like", CHAT),
    ],
)
def test_the_beginning_of_a_name_says_what_a_model_does(model, operations):
    assert local.configure(ProviderEntry(name="local")).offered(model) == operations


def test_without_pillow_no_model_offers_pictures(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    capabilities = local.configure(ProviderEntry(name="local"))
    assert capabilities.offered("local-image-1") == set()
    assert capabilities.offered("local-tts") == {"speech"}
