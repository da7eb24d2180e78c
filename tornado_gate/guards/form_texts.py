"""The texts of a form's files, for guards: their names, and the contents of text files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tornado_gate.codec.text_files import UnreadableFile, read_text_file
from tornado_gate.types import GuardedText, Upload

MAX_BYTES: Final = 1024 * 1024
"""Of a larger file the beginning shows whether it is sound, an image or a video; a larger text is not read."""


async def view_files(files: Sequence[Upload]) -> tuple[list[GuardedText], list[tuple[str, str]]]:
    """Return the texts of files, which are fixed, and the paths of files that cannot be read, each with the reason."""
    texts: list[GuardedText] = []
    unread: list[tuple[str, str]] = []
    for file in files:
        for name, text in (("filename", file.filename), ("content-type", file.media_type)):
            if text:
                texts.append(GuardedText(kind="name", path=f"{file.field}.{name}", text=text, is_fixed=True))
        try:
            content = read_text_file(await file.read(MAX_BYTES), [file.media_type])
        except UnreadableFile as fault:
            unread.append((file.field, fault.reason))
            continue
        if content is None:
            continue
        if file.size > MAX_BYTES:
            unread.append((file.field, f"is a text of more than {MAX_BYTES:,} bytes"))
        text, _, others = content
        texts += [GuardedText(kind="user", path=file.field, text=part, is_fixed=True) for part in (text, *others)]
    return texts, unread
