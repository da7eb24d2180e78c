"""The content of the pages at /docs: the document as tables and texts. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tornado.escape import xhtml_escape

from tornado_gate.types.value import Value

MAX_DEPTH = 3
"""The depth to which the members of a body are listed."""
METHODS = ("get", "post", "put", "patch", "delete", "head")
_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")

Document = Mapping[str, Any]


class Member(Value, frozen=True):
    """A row of a table: a parameter or a member of a body. `kind` is its type with its bounds, in words."""

    name: str
    kind: str
    required: bool
    description: str
    place: str = ""


class Answer(Value, frozen=True):
    status: str
    description: str
    media_types: tuple[str, ...] = ()


class Operation(Value, frozen=True, kw_only=True):
    """A route. `anchor` is its position on the page of its tag; texts are Markdown."""

    anchor: str
    method: str
    path: str
    summary: str
    description: str
    tag: str
    is_public: bool
    parameters: tuple[Member, ...]
    body: tuple[Member, ...]
    form: tuple[Member, ...]
    examples: tuple[tuple[str, str], ...]
    samples: tuple[tuple[str, str], ...]
    answers: tuple[Answer, ...]
    answer_members: tuple[Member, ...]


class Tag(Value, frozen=True):
    """A page: routes with one tag."""

    name: str
    slug: str
    operations: tuple[tuple[str, str, str, str], ...]  # method, path, summary, anchor


def list_tags(document: Document) -> list[Tag]:
    """Return all pages, with the routes of each, in the order of the document."""
    by_tag: dict[str, list[tuple[str, str, str, str]]] = {tag["name"]: [] for tag in document["tags"]}
    for method, path, operation in _iterate_operations(document):
        by_tag[operation["tags"][0]].append((method.upper(), path, operation["summary"], operation["operationId"]))
    return [Tag(name, make_slug(name), tuple(operations)) for name, operations in by_tag.items()]


def search_tags(tags: Sequence[Tag], query: str) -> list[Tag]:
    """Return the pages with the routes whose page, method, path or summary contains every word of `query`; [] without words."""
    words = query.casefold().split()
    results = []
    for tag in tags:
        operations = tuple(
            operation for operation in tag.operations if _contains_words(f"{tag.name} {' '.join(operation)}", words)
        )
        if words and operations:
            results.append(Tag(tag.name, tag.slug, operations))
    return results


def _contains_words(text: str, words: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def make_slug(name: str) -> str:
    """Return the name of a tag in an address."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def list_operations(document: Document, slug: str, base_url: str) -> list[Operation]:
    """Return the routes of a page; [] for an unknown page. `base_url` is the gateway's address in code samples."""
    return [
        _describe_operation(document, method, path, operation, base_url)
        for method, path, operation in _iterate_operations(document)
        if make_slug(operation["tags"][0]) == slug
    ]


def _iterate_operations(document: Document) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                yield method, path, operations[method]


def _describe_operation(
    document: Document, method: str, path: str, operation: Mapping[str, Any], base_url: str
) -> Operation:
    content = operation.get("requestBody", {}).get("content", {})
    body, form = content.get("application/json", {}), content.get("multipart/form-data", {})
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
    return Operation(
        anchor=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        tag=operation["tags"][0],
        is_public=operation.get("security") == [],
        parameters=tuple(_describe_parameter(document, item) for item in operation.get("parameters", ())),
        body=tuple(_list_members(document, body.get("schema", {}))),
        form=tuple(_list_members(document, form.get("schema", {}))),
        examples=tuple((item["summary"], _format_value(item["value"])) for item in body.get("examples", {}).values()),
        samples=tuple(
            (item["label"], item["source"].replace(_find_base_url(operation), base_url))
            for item in operation.get("x-codeSamples", ())
        ),
        answers=tuple(_describe_answer(document, *item) for item in operation["responses"].items()),
        answer_members=tuple(_list_members(document, answer.get("schema", {}))),
    )


def _find_base_url(operation: Mapping[str, Any]) -> str:
    """Return the address in the samples of an operation, without the path."""
    source, address = operation["x-codeSamples"][0]["source"], operation["x-gate-examples"][0]["address"]
    match = re.search(r"'(\S*?)" + re.escape(address) + "'", source)
    return match[1] if match else ""


def _format_value(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _resolve_reference(document: Document, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the value itself, or the component to which it refers."""
    while "$ref" in value:
        component: Any = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            component = component[step]
        value = component
    return value


def _describe_parameter(document: Document, reference: Mapping[str, Any]) -> Member:
    parameter = _resolve_reference(document, reference)
    kind = describe_kind(document, parameter.get("schema", {}))
    return Member(
        parameter["name"], kind, parameter.get("required", False), parameter.get("description", ""), parameter["in"]
    )


def _describe_answer(document: Document, status: str, reference: Mapping[str, Any]) -> Answer:
    answer = _resolve_reference(document, reference)
    return Answer(status, answer["description"], tuple(answer.get("content", ())) if status == "200" else ())


def _list_members(document: Document, schema: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterator[Member]:
    """Yield the members of an object, with the members of inner objects after it, under dotted names.

    For alternatives, the members of each are listed.
    """
    schema = _resolve_reference(document, schema)
    for alternative in schema.get("anyOf", ()):
        yield from _list_members(document, alternative, prefix, depth)
    items = schema.get("items")
    if items is not None:
        yield from _list_members(document, items, f"{prefix}[].".replace(".[]", "[]"), depth)
    required = schema.get("required", ())
    for name, member_schema in schema.get("properties", {}).items():
        member = _resolve_reference(document, member_schema)
        yield Member(
            prefix + name, describe_kind(document, member_schema), name in required, member.get("description", "")
        )
        if depth < MAX_DEPTH:
            yield from _list_members(document, member_schema, f"{prefix}{name}.", depth + 1)


def describe_kind(document: Document, reference: Mapping[str, Any]) -> str:
    """Return the type of a schema with its choices and bounds, such as "integer, 1 to 128, or null"."""
    schema = _resolve_reference(document, reference)
    if "anyOf" in schema:
        kinds = dict.fromkeys(describe_kind(document, alternative) for alternative in schema["anyOf"])
        return " or ".join(kinds)
    if "const" in schema:
        return f'"{schema["const"]}"'
    kinds_given = schema.get("type", "any value")
    kinds_list = kinds_given if isinstance(kinds_given, list) else [kinds_given]
    words = [word for word in kinds_list if word != "null"]
    if not words:
        return "null"
    text = " or ".join(words)
    if "enum" in schema:
        text = "one of " + ", ".join(str(alternative) for alternative in schema["enum"] if alternative is not None)
    if words == ["array"] and "items" in schema:
        text = f"array of {describe_kind(document, schema['items'])}"
    return text + _describe_bounds(schema) + (", or null" if "null" in kinds_list else "")


def _describe_bounds(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    texts = []
    if least is not None and most is not None:
        texts.append(f"{least} to {most}")
    elif least is not None or most is not None:
        texts.append(f"{least} or more" if most is None else f"{most} or less")
    if "maxLength" in schema:
        texts.append(f"at most {schema['maxLength']} characters")
    if "maxItems" in schema:
        texts.append(f"at most {schema['maxItems']} items")
    return "".join(f", {text}" for text in texts)


def render_text(text: str) -> str:
    """Render Markdown as HTML: paragraphs, code and bold; everything else is escaped."""
    paragraphs = [xhtml_escape(" ".join(part.split())) for part in text.split("\n\n") if part.strip()]
    return "".join(f"<p>{render_inline(part, escaped=True)}</p>" for part in paragraphs)


def render_inline(text: str, *, escaped: bool = False) -> str:
    """Render one line as `render_text` does."""
    safe = text if escaped else xhtml_escape(text)
    return _BOLD.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", safe))
