"""Images, files and audio that the vendor refuses.

Sources: image types: STranslate/STranslate#277 (2024-12-09); files of chat completions are PDF only:
trpc-group/trpc-agent-go#1816 (2026-05-18); files of responses: strands-agents/harness-sdk#3576 and vercel/ai#7776; a text
model: browser-use/browser-use#283.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from qa.imitations.openai.models import Model
from qa.imitations.openai.refusals import Refusal, missing_parameter

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)((?:;[\w=.+-]+)*);base64,(.*)", re.DOTALL)
_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SIGNATURES: Final = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_PDF: Final = "application/pdf"


def check_image(model: Model, url: Any, param: str) -> None:
    if not model.vision:
        raise Refusal("Invalid content type. image_url is only supported by certain models.", param)
    if re.match(r"https?://[^/\s]+", str(url)):
        return
    match = _DATA_URL.fullmatch(str(url))
    if match is None:
        message = f"Invalid '{param}'. Expected a valid URL, but got a value with an invalid format."
        raise Refusal(message, param, "invalid_value")
    if match[1] not in _IMAGE_TYPES or not decode(match[3]).startswith(_SIGNATURES):
        message = (
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            "['png', 'jpeg', 'gif', 'webp']."
        )
        raise Refusal(message, None, "invalid_image_format")


def check_chat_file(part: Mapping[str, Any], param: str) -> None:
    """A ``file`` part of chat completions; `param` is the path of its object ``file``."""
    if ("file_id" in part) == ("file_data" in part):
        raise missing_parameter(f"{param}.file_id")
    if "file_id" in part:
        return check_file_id(part["file_id"], f"{param}.file_id")
    if not part.get("filename"):
        raise missing_parameter(f"{param}.filename")
    match = _DATA_URL.fullmatch(part["file_data"])
    wrong = "an invalid base64-encoded value"
    if match is not None and decode(match[3]):
        if match[1] == _PDF:
            return None
        wrong = f"unsupported MIME type '{match[1]}'"
    message = (
        f"Invalid file data: '{param}.file_data'. Expected a base64-encoded data URL with an application/pdf MIME type "
        f"(e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got {wrong}."
    )
    raise Refusal(message, f"{param}.file_data", "invalid_value")


def check_response_file(part: Mapping[str, Any], param: str) -> None:
    """An ``input_file`` part of responses."""
    given = [name for name in ("file_id", "file_data", "file_url") if part.get(name) is not None]
    if len(given) != 1:
        message = (
            f"Mutually exclusive parameters: '{param}'. Ensure you are only providing one of: 'file_id', "
            "'file_data', or 'file_url'."
        )
        raise Refusal(message, param, "mutually_exclusive_parameters")
    if part.get("filename") is not None and given != ["file_data"]:
        message = (
            f"Mutually exclusive parameters: '{param}'. Ensure you are only providing one of: "
            f"'{given[0]}' or 'filename'."
        )
        raise Refusal(message, param, "mutually_exclusive_parameters")
    if given == ["file_id"]:
        check_file_id(part["file_id"], f"{param}.file_id")
    elif given == ["file_url"]:
        if not re.match(r"https?://", part["file_url"]):
            raise Refusal("Failed to download file.", "url", "invalid_value")
    elif not part.get("filename"):
        raise missing_parameter(f"{param}.filename")
    else:
        match = _DATA_URL.fullmatch(part["file_data"])
        if match is None or not decode(match[3]):
            raise Refusal(f"Invalid '{param}.file_data'.", f"{param}.file_data", "invalid_value")
        if not match[1].startswith(("application/", "text/")):
            message = f"Invalid file data: '{param}.file_data'. Unsupported MIME type '{match[1]}'."
            raise Refusal(message, f"{param}.file_data", "invalid_value")


def check_file_id(file_id: Any, param: str) -> None:
    if not str(file_id).startswith("file-"):
        message = f"Invalid '{param}': '{file_id}'. Expected an ID that begins with 'file'."
        raise Refusal(message, param, "invalid_value")


def check_audio(model: Model, part: Mapping[str, Any], param: str) -> None:
    if not model.audio:
        raise Refusal("Invalid content type. input_audio is only supported by certain models.", param)
    if not decode(part["data"]):
        raise Refusal(f"Invalid '{param}.data'. Expected base64-encoded audio.", f"{param}.data", "invalid_value")


def decode(text: str) -> bytes:
    """The bytes of base64; b"" for an invalid text."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
