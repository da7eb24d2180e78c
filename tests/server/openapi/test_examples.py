"""Every example of /openapi.json is sent to a running gateway with the local provider, and its answer follows its schema."""

from __future__ import annotations

import base64
import io
import struct
import subprocess
import sys
import time
import wave
import zlib
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.server.openapi.conftest import KEY

UNSUPPORTED = {
    "an administrator",
    "a model",
    "a model that makes variations",
    "a provider with this API",
    "a completed task of a provider that can change videos",
    "a response in the background",
}
"""What the local provider or this key does not have. Tests of /admin/v1 send its examples."""


def make_png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * 64 for _ in range(64))
    head = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def make_wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16000)
        sound.writeframes(bytes(3200))
    return file.getvalue()


FILES = {"image.png": make_png(), "speech.wav": make_wav()}


class Objects:
    """What the examples need, created when it is first needed."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._task = ""

    def resolve(self, address: str) -> str:
        """The address with ids in place of the words for them."""
        kind = "image" if "image2video" in address else "text"
        if "TASK" in address:
            return address.replace("TASK", self._make_task(kind))
        if "RESPONSE" in address:
            body = {"model": "local-chat", "input": "Hello.", "store": True}
            return address.replace("RESPONSE", self._create("/v1/responses", body))
        if "CONVERSATION" in address:
            items = [{"type": "message", "role": "user", "content": "Hello."}]
            created = self._create("/v1/conversations", {"items": items})
            listed = self._client.get(f"/v1/conversations/{created}/items").json()["data"][0]["id"]
            return address.replace("CONVERSATION", created).replace("ITEM", listed)
        return address

    def _create(self, path: str, body: dict[str, Any]) -> str:
        response = self._client.post(path, json=body)
        assert response.status_code == 200, response.text
        return str(response.json()["id"])

    def _make_task(self, kind: str) -> str:
        picture = {"image": "data:image/png;base64," + _encode(FILES["image.png"])} if kind == "image" else {}
        body = {"model": "local-video", "prompt": "A ball.", "duration": 1, "width": 64, "height": 64, **picture}
        created = self._create("/v1/videos", body)
        deadline = time.monotonic() + 30
        while self._client.get(f"/v1/videos/{created}?wait=10").json()["status"] != "completed":
            assert time.monotonic() < deadline
        return created


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.qa
def test_every_example_works(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    objects, sent, unsupported = Objects(client), 0, set()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for example in operation.get("x-gate-examples", ()):
                if example["needs"] in UNSUPPORTED:
                    unsupported.add(example["needs"])
                    continue
                response = send(client, objects.resolve(example["address"]), example)
                assert response.status_code == 200, f"{path} {example['name']}: {response.status_code} {response.text}"
                check_answer(document, operation, response, path)
                sent += 1
    assert sent > 60
    assert unsupported == UNSUPPORTED


def send(client: httpx.Client, address: str, example: dict[str, Any]) -> httpx.Response:
    given: dict[str, Any] = {"json": example["body"]} if example["body"] is not None else {}
    if example["files"]:
        files = {name: (file, FILES[file]) for name, file in example["files"].items()}
        given = {"files": files, "data": example["fields"]}
    return client.request(example["method"], address, headers=example["headers"], **given)


def check_answer(document: dict[str, Any], operation: dict[str, Any], response: httpx.Response, path: str) -> None:
    content = operation["responses"]["200"].get("content", {})
    media_type = response.headers.get("content-type", "").partition(";")[0]
    assert media_type in content or not response.content, f"{path} answers {media_type}"
    if media_type == "application/json" and response.content:
        schema = {**content[media_type]["schema"], "components": document["components"]}
        errors = [
            f"{list(one.path)}: {one.message}" for one in Draft202012Validator(schema).iter_errors(response.json())
        ]
        assert not errors, f"{path}: {errors}"


def test_the_description_is_compressed_and_kept_by_its_tag(client: httpx.Client) -> None:
    first = client.get("/openapi.json", headers={"Authorization": ""})
    assert first.headers["content-encoding"] == "gzip"
    assert int(first.headers["content-length"]) < 60_000
    again = client.get("/openapi.json", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = client.get("/openapi.json/", headers={"Accept-Encoding": "identity"})
    assert plain.json() == first.json()
    assert client.post("/openapi.json").status_code == 405


def test_a_code_sample_in_python_runs_as_it_is_shown(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    samples = document["paths"]["/v1/chat/completions"]["post"]["x-codeSamples"]
    source = next(one["source"] for one in samples if one["lang"] == "Python")
    source = source.replace("http://127.0.0.1:8080", str(client.base_url).rstrip("/"))
    done = subprocess.run([sys.executable, "-c", source], env={"GATE_KEY": KEY}, capture_output=True, check=True)
    assert done.stdout.startswith(b"200 {")


PUBLIC = {"/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/media/{file_id}", "/videos/{file_id}"}
"""All paths that answer without a key: the process's state, this description, and files by their signed address."""


def test_no_other_route_answers_without_a_key(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    anonymous = httpx.Client(base_url=client.base_url)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert (operation.get("security", [{"bearer": []}]) in ([], [{}, {"bearer": []}])) is (path in PUBLIC), path
            for target in (path, *operation.get("x-gate-aliases", ())):
                body = {"json": {}} if method in ("post", "put", "patch") else {}
                response = anonymous.request(method, target.replace("{", "").replace("}", ""), **body)
                told = f"{method} {target}: {response.status_code} {response.text}"
                if path in PUBLIC:
                    assert response.status_code in (200, 404), told
                else:
                    is_socket = method == "get" and "101" in operation["responses"]
                    assert response.status_code == (426 if is_socket else 401), told
