"""The description is valid, complete, and never stricter than the checks of the gateway."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.support.gates import FakeProvider, make_config, make_gate
from tornado_gate.codec import fields
from tornado_gate.config import load
from tornado_gate.errors import InvalidField
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.plugins.host import PluginHost
from tornado_gate.server.openapi.document import build_document
from tornado_gate.server.openapi.errors import STATUSES, STREAM_CODES
from tornado_gate.server.openapi.schemas import SchemaRegistry

ROOT = Path(__file__).parents[3]
_CODE = re.compile(r'\bcode(?::\s*str)?\s*=\s*"([a-z_]+)"')


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return build(load(ROOT / "conf/gate.yaml", {}), PluginHost())


@pytest.fixture(scope="module")
def document(snapshot: Snapshot) -> dict[str, Any]:
    return build_document(snapshot)


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    OpenAPIV31SpecValidator(document).validate()  # type: ignore[arg-type]  # a dict is a mapping of hashable keys


def test_every_route_is_described(document: dict[str, Any], snapshot: Snapshot) -> None:
    aliases = {
        (method, path)
        for operations in document["paths"].values()
        for method, operation in operations.items()
        for path in operation.get("x-gate-aliases", ())
    }
    for served in snapshot.routes.__iter__():
        method, path = served.route.method.lower(), served.route.path
        operation = document["paths"].get(path, {}).get(method)
        assert operation is not None or (method, path) in aliases, f"{method} {path}"
        assert operation is None or served.format in operation["x-gate-format"]
        assert operation is None or not operation["summary"].endswith(f"({served.format})"), f"no summary: {path}"


def test_operations_have_different_names(document: dict[str, Any]) -> None:
    names = [one["operationId"] for operations in document["paths"].values() for one in operations.values()]
    assert len(names) == len(set(names))


def test_examples_follow_the_schemas_of_their_bodies(document: dict[str, Any]) -> None:
    seen = 0
    for path, operations in document["paths"].items():
        for operation in operations.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for name, example in body.get("examples", {}).items():
                schema = {**body["schema"], "components": document["components"]}
                errors = [error.message for error in Draft202012Validator(schema).iter_errors(example["value"])]
                assert not errors, f"{path} {name}: {errors}"
                seen += 1
    assert seen > 30


def test_each_error_shows_the_envelope_of_its_format(document: dict[str, Any]) -> None:
    validator = Draft202012Validator(document["components"]["schemas"]["Error"])
    for name, response in document["components"]["responses"].items():
        example = response["content"]["application/json"]["example"]
        validator.validate(example)
        if name.startswith("format-anthropic."):
            assert example["type"] == "error"
        if name.startswith("format-gemini."):
            assert "status" in example["error"]


def test_every_code_of_an_error_is_listed() -> None:
    listed = {code for _, codes in STATUSES.values() for code in codes} | STREAM_CODES
    for folder in ("tornado_gate", *(f"plugins/{path.name}" for path in (ROOT / "plugins").glob("format-*"))):
        for path in (ROOT / folder).rglob("*.py"):
            if not {"tests", "cli", "console", "accounts"} & set(path.parts):
                found = set(_CODE.findall(path.read_text(encoding="utf-8")))
                assert found <= listed, f"{path}: add the codes to server/openapi/errors.py"


def test_a_format_without_descriptions_is_listed_by_its_routes(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, make_config(tmp_path), fake=FakeProvider())
    document = build_document(gate.snapshot)
    OpenAPIV31SpecValidator(document).validate()  # type: ignore[arg-type]  # as above
    assert document["paths"]["/plain"]["post"]["requestBody"]["content"].keys() == {
        "application/json", "multipart/form-data",
    }  # fmt: skip
    assert document["components"]["responses"]["plain.404"]["content"]["application/json"]["example"]["plain"] is True


class _Inner(fields.BodySchema):
    name = fields.String(required=True, filled=True)


def _check_seconds(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidField("seconds", "'seconds' must be a string or a number.")


class _AllSchema(fields.BodySchema):
    """Every kind of field."""

    word = fields.String(choices=("a", "b"), allow_none=True)
    text = fields.String(longest=3)
    flag = fields.Boolean()
    count = fields.Integer(least=1, most=5, allow_none=True)
    share = fields.Number(most=1.5)
    free = fields.Object()
    inner = fields.Object(_Inner, allow_none=True)
    several = fields.Array(fields.Object(_Inner), least=1, most=2)
    either = fields.OneOf(by_type={str: fields.String(), list: fields.Array(fields.Integer())}, allow_none=True)
    unchecked = fields.FunctionField(lambda _value: None, allow_none=True)
    seconds = fields.FunctionField(
        _check_seconds, allow_none=True, keywords={"anyOf": [{"type": "string"}, {"type": "number"}]}
    )


class _AllFormSchema(_AllSchema):
    """A form."""

    once = fields.FormText(choices=("x", "y"), allow_none=True)
    picture = fields.File(needed=True, description="A picture.")
    mask = fields.File()


def _accepts(body: dict[str, Any]) -> bool:
    try:
        fields.check(_AllSchema(), body)
    except InvalidField:
        return False
    return True


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"other": object}, {"word": None}, {"word": "a"}, {"word": "c"}, {"text": "abcd"}, {"text": None}),
        *({"flag": 1}, {"flag": True}, {"count": 0}, {"count": 5}, {"count": None}, {"count": "5"}, {"count": 1.5}),
        *({"count": True}, {"share": 1.5}, {"share": 2}, {"share": "1"}, {"free": {"x": 1}}, {"free": []}),
        *({"inner": None}, {"inner": {}}, {"inner": {"name": ""}}, {"inner": {"name": "x", "more": 1}}),
        *({"several": []}, {"several": [{"name": "x"}]}, {"several": [{}]}, {"several": [{"name": "x"}] * 3}),
        *({"either": "x"}, {"either": [1]}, {"either": ["x"]}, {"either": 1}, {"either": None}, {"unchecked": [1]}),
        *({"unchecked": None}, {"seconds": "4"}, {"seconds": 4.5}, {"seconds": None}, {"seconds": [4]}),
    ],
)
def test_a_schema_accepts_what_the_fields_accept(body: dict[str, Any]) -> None:
    body = {name: 1 if value is object else value for name, value in body.items()}
    registry = SchemaRegistry()
    schema = registry.convert(_AllSchema)
    components = {"components": {"schemas": registry.components}}
    assert Draft202012Validator({**schema, **components}).is_valid(body) is _accepts(body)


def test_a_form_has_its_files_and_no_null() -> None:
    schema = SchemaRegistry().convert_form(_AllFormSchema)
    assert schema["required"] == ["picture"]
    file = {"type": "string", "format": "binary"}
    assert schema["properties"]["picture"] == {"description": "A picture.", **file}
    assert schema["properties"]["mask"] == file
    assert schema["properties"]["once"] == {"type": "string", "enum": ["x", "y"]}
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 1, "maximum": 5}
    assert schema["properties"]["seconds"] == {"anyOf": [{"type": "string"}, {"type": "number"}]}
    assert "null" not in str(schema)
