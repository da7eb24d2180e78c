"""What a file of some type becomes at a model that accepts some types: sent, sent under its real type, refused, or left out."""

from __future__ import annotations

import base64
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tornado_gate.errors import InvalidField
from tornado_gate.types import Audio, Data, File, Image, Link
from tornado_gate.wire.accepted_media import fit_medium

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
BMP = base64.b64encode(b"BM" + bytes(12) + b"\x28\0\0\0" + bytes(8)).decode()
PDF = base64.b64encode(b"%PDF-1.7 text").decode()
OTHER = base64.b64encode(b"bytes of no known format").decode()
SEEING = ("image/png", "image/jpeg", "application/pdf", "text/*")
HEARING = ("audio/wav", "audio/mpeg")
CALL: Any = SimpleNamespace(model="seer")


def fit(part: Any, accepted: tuple[str, ...] | None) -> Any:
    return fit_medium(CALL, part, accepted, partial(str, "messages.0.content.1"))


@pytest.mark.parametrize(
    ("kind", "declared", "data", "accepted", "sent"),
    [
        (Image, "image/png", PNG, SEEING, "image/png"),
        (Image, "image/heic", PNG, SEEING, "image/png"),
        (Image, "image/jpg", OTHER, SEEING, "image/jpeg"),
        (Image, "image/bmp", BMP, None, "image/bmp"),
        (File, "application/octet-stream", PDF, SEEING, "application/pdf"),
        (File, "application/json", OTHER, SEEING, "text/plain"),
        (File, "text/markdown", OTHER, ("text/plain",), "text/plain"),
        (File, "", OTHER, SEEING, ""),
        (Audio, "audio/x-wav", OTHER, HEARING, "audio/wav"),
        (Audio, "audio/mp3", OTHER, (*HEARING, "audio/mp3"), "audio/mp3"),
        (File, "video/mp4", OTHER, SEEING, None),
        (Audio, "audio/wav", OTHER, SEEING, None),
    ],
)
def test_a_file_is_sent_under_its_real_type_or_left_out(
    kind: Any, declared: str, data: str, accepted: Any, sent: str | None
) -> None:
    fitted = fit(kind(source=Data(media_type=declared, base64=data)), accepted)
    assert (fitted and fitted.source.media_type) == sent


@pytest.mark.parametrize(
    ("part", "accepted", "real"),
    [
        (Image(source=Data(media_type="image/bmp", base64=OTHER)), SEEING, "image/bmp"),
        (Image(source=Data(media_type="image/png", base64=BMP)), SEEING, "image/bmp"),
        (Image(source=Data(media_type="image/png", base64=PDF)), SEEING, "application/pdf"),
        (File(source=Data(media_type="application/zip", base64=OTHER)), SEEING, "application/zip"),
        (Audio(source=Data(media_type="audio/flac", base64=OTHER)), HEARING, "audio/flac"),
    ],
)
def test_a_type_that_the_model_does_not_accept_is_refused_at_its_place(part: Any, accepted: Any, real: str) -> None:
    with pytest.raises(InvalidField, match=f"'{real}', which the model 'seer' does not accept") as caught:
        fit(part, accepted)
    assert caught.value.param == "messages.0.content.1"


def test_links_are_not_checked() -> None:
    link = Image(source=Link(url="https://h/a.bmp", media_type="image/bmp"))
    assert fit(link, SEEING) is link
