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
        ("local-video", {"videos"}),
        ("local-video-1", {"videos"}),
        ("local-realtime", {"realtime"}),
        ("whatever-you-like", CHAT),
    ],
)
def test_the_beginning_of_a_name_says_what_a_model_does(model, operations):
    assert local.configure(ProviderEntry(name="local")).get_operations(model) == operations


@pytest.mark.parametrize(
    ("missing", "pictures", "videos"),
    [
        ({"PIL"}, set(), set()),
        ({"av"}, {"images", "image_edits"}, set()),
        ({"PIL", "av"}, set(), set()),
        (set(), {"images", "image_edits"}, {"videos"}),
    ],
)
def test_without_pillow_there_are_no_pictures_and_without_either_library_no_videos(
    monkeypatch, missing, pictures, videos
):
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name in missing else "found")
    capabilities = local.configure(ProviderEntry(name="local"))
    assert capabilities.get_operations("local-image-1") == pictures
    assert capabilities.get_operations("local-video") == videos
    assert capabilities.get_operations("local-tts") == {"speech"}


def test_a_video_whose_beginning_is_uncertain_may_be_begun_again():
    assert local.configure(ProviderEntry(name="local")).videos_may_repeat
