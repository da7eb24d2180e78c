"""The examples of /openapi.json as requests: files, forms, and ids of objects that are created when they are needed."""

from __future__ import annotations

import base64
import io
import json
import struct
import time
import uuid
import wave
import zlib
from typing import Any, Final

from tornado_gate.cli.selftest.gateway import Answer, TemporaryGateway

TASK_SECONDS: Final = 60.0
UNSUPPORTED_NEEDS: Final = frozenset(
    {
        "an administrator",
        "a model",
        "a model that makes variations",
        "a provider with this API",
        "a completed task of a provider that can change videos",
        "a response in the background",
    }
)
"""What examples need and the local provider, or the key of the temporary gateway, does not have."""


class NotCreated(Exception):
    """An object that an example needs could not be created."""


def make_png() -> bytes:
    """Return a red square of 64 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * 64 for _ in range(64))
    head = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def make_wav() -> bytes:
    """Return 0.1 s of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16000)
        sound.writeframes(bytes(3200))
    return file.getvalue()


FILES: Final = {"image.png": make_png(), "speech.wav": make_wav()}


class ExampleSender:
    """The sender of examples to one gateway."""

    def __init__(self, gateway: TemporaryGateway) -> None:
        self._gateway = gateway

    def send(self, example: dict[str, Any]) -> Answer:
        """Send an example, and return the response. Raises NotCreated."""
        address, headers = self._resolve(example["address"]), dict(example["headers"])
        body = None if example["body"] is None else json.dumps(example["body"]).encode()
        if example["files"]:
            headers["Content-Type"], body = make_form(example["fields"], example["files"])
        return self._gateway.send(example["method"], address, headers, body)

    def _resolve(self, address: str) -> str:
        """Return the address with ids in place of the words for them."""
        if "TASK" in address:
            return address.replace("TASK", self.make_task("image" if "image2video" in address else "text"))
        if "RESPONSE" in address:
            body = {"model": "local-chat", "input": "Hello.", "store": True}
            return address.replace("RESPONSE", self._create("/v1/responses", body))
        if "CONVERSATION" in address:
            items = [{"type": "message", "role": "user", "content": "Hello."}]
            created = self._create("/v1/conversations", {"items": items})
            listed = self._gateway.send("GET", f"/v1/conversations/{created}/items")
            return address.replace("CONVERSATION", created).replace("ITEM", str(_read(listed)["data"][0]["id"]))
        return address

    def _create(self, path: str, body: dict[str, Any]) -> str:
        answer = self._gateway.send("POST", path, None, json.dumps(body).encode())
        if answer.status != 200:
            raise NotCreated(f"POST {path} for it: {describe_failure(answer)}")
        return str(_read(answer)["id"])

    def make_task(self, kind: str) -> str:
        """Return the id of a finished video task, made from a text or an image. Raises NotCreated."""
        picture = "data:image/png;base64," + base64.b64encode(FILES["image.png"]).decode()
        body = {"model": "local-video", "prompt": "A ball.", "duration": 1, "width": 64, "height": 64}
        created = self._create("/v1/videos", {**body, "image": picture} if kind == "image" else body)
        deadline = time.monotonic() + TASK_SECONDS
        while (
            status := _read(self._gateway.send("GET", f"/v1/videos/{created}?wait=10")).get("status")
        ) != "completed":
            if status == "failed" or time.monotonic() > deadline:
                raise NotCreated(f"the video task {created} is {status}")
        return created


def make_form(fields: dict[str, Any], files: dict[str, str]) -> tuple[str, bytes]:
    """Return the content type and the body of a form with fields and files of `FILES`."""
    boundary = uuid.uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, file in files.items():
        kind = "image/png" if file.endswith(".png") else "audio/wav"
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\nContent-Type: {kind}\r\n\r\n'
        parts += [head.encode(), FILES[file], b"\r\n"]
    return f"multipart/form-data; boundary={boundary}", b"".join([*parts, f"--{boundary}--\r\n".encode()])


def describe_failure(answer: Answer) -> str:
    """Return the status and the message of a response that is no success."""
    if not answer.status:
        return f"no response: {answer.body.decode(errors='replace')}"
    error = _read(answer).get("error")
    message = error.get("message", "") if isinstance(error, dict) else answer.body[:200].decode(errors="replace")
    return f"{answer.status}: {message}"


def _read(answer: Answer) -> dict[str, Any]:
    """Return the JSON object of a response; {} for anything else."""
    try:
        value = json.loads(answer.body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
