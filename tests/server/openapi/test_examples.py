"""Every example of /openapi.json is sent to a running gateway with the local provider, and its answer follows its schema."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.server.openapi.conftest import KEY
from tornado_gate.cli.selftest.examples import UNSUPPORTED_NEEDS, ExampleSender
from tornado_gate.cli.selftest.gateway import Answer, TemporaryGateway


@pytest.mark.qa
def test_every_example_works(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    sender = ExampleSender(TemporaryGateway(str(client.base_url).rstrip("/"), KEY))
    sent, unsupported = 0, set()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for example in operation.get("x-gate-examples", ()):
                if example["needs"] in UNSUPPORTED_NEEDS:
                    unsupported.add(example["needs"])
                    continue
                answer = sender.send(example)
                assert answer.status == 200, f"{path} {example['name']}: {answer.status} {answer.body!r}"
                check_answer(document, operation, answer, path)
                sent += 1
    assert sent > 60
    assert unsupported == UNSUPPORTED_NEEDS


def check_answer(document: dict[str, Any], operation: dict[str, Any], answer: Answer, path: str) -> None:
    content = operation["responses"]["200"].get("content", {})
    assert answer.media_type in content or not answer.body, f"{path} answers {answer.media_type}"
    if answer.media_type == "application/json" and answer.body:
        schema = {**content[answer.media_type]["schema"], "components": document["components"]}
        found = Draft202012Validator(schema).iter_errors(json.loads(answer.body))
        errors = [f"{list(one.path)}: {one.message}" for one in found]
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
