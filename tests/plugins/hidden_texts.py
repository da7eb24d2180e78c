"""A text in files and in odd places of a request, in many encodings, and a reader that finds it in whatever arrives."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

CANARY = "zanzibar"
NUMBER = 4111111111111111
_FOUND = re.compile(rf"{CANARY}|{NUMBER}")
_CHARSETS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-7")
TEXT = f"The island is {CANARY}, which is a text of several words."


class Encoding(NamedTuple):
    """A file with the text: its declared type and data, and a data URL if that is not made of both."""

    name: str
    media_type: str
    data: str
    url: str = ""

    @property
    def address(self) -> str:
        return self.url or f"data:{self.media_type};base64,{self.data}"


def encode(text: str | bytes = TEXT) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


PLAIN = encode()
LATIN = "Une île, très loin: " + CANARY


def _list_encodings() -> Iterator[Encoding]:
    yield Encoding("plain", "text/plain", PLAIN)
    yield Encoding("upper case", "TEXT/Plain", PLAIN)
    yield Encoding("no padding", "text/plain", PLAIN.rstrip("="))
    yield Encoding("alphabet of URLs", "text/plain", base64.urlsafe_b64encode((TEXT + "??>>~~").encode()).decode())
    yield Encoding("a space", "text/plain", PLAIN[:8] + " " + PLAIN[8:])
    yield Encoding("line breaks", "text/plain", PLAIN[:8] + "\r\n\t" + PLAIN[8:])
    yield Encoding("an at sign", "text/plain", PLAIN[:8] + "@" + PLAIN[8:])
    yield Encoding("other ignored signs", "text/plain", PLAIN[:8] + "!*é" + PLAIN[8:])
    yield Encoding("signs of the other alphabet", "text/plain", PLAIN[:8] + "-_-_" + PLAIN[8:])
    yield Encoding("signs of the other alphabet, as sound", "audio/pcm", PLAIN[:8] + "-_-_" + PLAIN[8:])
    yield Encoding("padding in the middle", "text/plain", encode(TEXT[:10]) + encode(TEXT[10:]))
    yield Encoding("too much padding", "text/plain", PLAIN + "==")
    yield Encoding("percent in base64", "text/plain", "%" + f"{ord(PLAIN[0]):02X}" + PLAIN[1:])
    for charset in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"):
        yield Encoding(charset, "text/plain", encode(TEXT.encode(charset)))
        yield Encoding(f"{charset}, declared", f"text/plain;charset={charset}", encode(TEXT.encode(charset)))
        yield Encoding(f"{charset}, of unknown type", "application/octet-stream", encode(TEXT.encode(charset)))
    yield Encoding("utf-7", "text/plain;charset=utf-7", encode(TEXT.encode("utf-7")))
    yield Encoding("latin-1", "text/plain;charset=latin-1", encode(LATIN.encode("latin-1")))
    yield Encoding("latin-1, not declared", "text/plain", encode(LATIN.encode("latin-1")))
    yield Encoding("latin-1, of unknown type", "application/octet-stream", encode(LATIN.encode("latin-1")))
    yield Encoding("a wrong charset", "text/plain;charset=utf-16", PLAIN)
    yield Encoding("a byte that is no text", "text/plain", encode(TEXT.encode() + b"\xff"))
    for media_type in (
        "application/octet-stream",
        "image/png",
        "audio/wav",
        "audio/pcm",
        "application/pdf",
        "video/mp4",
    ):
        yield Encoding(f"as {media_type}", media_type, PLAIN)
    for media_type in (
        "application/json",
        "text/html",
        "application/x-yaml",
        "image/svg+xml",
        "text/plain (a comment)",
        "text",
    ):
        yield Encoding(f"as {media_type}", media_type, PLAIN)
    yield Encoding("without a type", "", PLAIN)
    url = "data:text/plain"
    yield Encoding(
        "nine parameters", "text/plain", PLAIN, url + "".join(f";p{n}=1" for n in range(9)) + ";base64," + PLAIN
    )
    yield Encoding("a space before base64", "text/plain", PLAIN, f"{url}; base64,{PLAIN}")
    yield Encoding("base64 not last", "text/plain", PLAIN, f"{url};base64;x=1,{PLAIN}")
    yield Encoding("base64 twice", "text/plain", PLAIN, f"{url};base64;base64,{PLAIN}")
    yield Encoding("BASE64", "text/plain", PLAIN, f"{url};BASE64,{PLAIN}")
    yield Encoding("base64 misspelled", "text/plain", PLAIN, f"{url};base-64,{PLAIN}")
    yield Encoding("DATA:", "text/plain", PLAIN, f"DATA:text/plain;base64,{PLAIN}")
    yield Encoding("space around", "text/plain", PLAIN, f" \t{url};base64,{PLAIN}\n")
    yield Encoding("a line break in the scheme", "text/plain", PLAIN, f"da\nta:text/plain;base64,{PLAIN}")
    yield Encoding("only base64", "text/plain", PLAIN, f"data:;base64,{PLAIN}")
    yield Encoding("a quoted charset", "text/plain", PLAIN, f'{url};charset="utf-8";base64,{PLAIN}')
    yield Encoding("a comma in quotes", "text/plain", PLAIN, f'{url};x="a,b";base64,{PLAIN}')
    yield Encoding("percent-encoding", "text/plain", PLAIN, f"{url},{quote(TEXT)}")
    yield Encoding(
        "all percent-encoded", "text/plain", PLAIN, url + "," + "".join(f"%{one:02x}" for one in TEXT.encode())
    )
    yield Encoding(
        "percent-encoding of UTF-16", "text/plain", PLAIN, f"{url};charset=utf-16," + quote(TEXT.encode("utf-16"))
    )
    yield Encoding(
        "escapes in base64", "text/plain", PLAIN, f"{url};base64," + "".join(f"%{ord(one):02x}" for one in PLAIN)
    )
    yield Encoding("without a comma", "text/plain", PLAIN, f"{url};base64{PLAIN}")


ENCODINGS = tuple(_list_encodings())


def make_file(wire_format: str, one: Encoding) -> list[list[Any]]:
    """The contents of a turn with the file, in each member of a format that may have one."""
    if wire_format == "chat":
        return [
            [{"type": "file", "file": {"file_data": one.address, "filename": "a.txt"}}],
            [{"type": "file", "file": {"file_data": one.data, "filename": "a.txt"}}],
            [{"type": "image_url", "image_url": {"url": one.address}}],
        ]
    if wire_format == "responses":
        return [
            [{"type": "input_file", "file_data": one.address, "filename": "a.txt"}],
            [{"type": "input_file", "file_data": one.data, "filename": "a.txt"}],
            [{"type": "input_image", "image_url": one.address}],
        ]
    if wire_format == "messages":
        base = {"type": "base64", "media_type": one.media_type, "data": one.data}
        untyped = {"type": "base64", "data": one.data}
        return [
            [{"type": "document", "source": source}] for source in (base, untyped, {"type": "url", "url": one.address})
        ]
    return [
        [{"inlineData": {"mimeType": one.media_type, "data": one.data}}],
        [{"inline_data": {"mime_type": "image/png", "mimeType": one.media_type, "data": one.data}}],
        [{"inlineData": {"mimeType": "image/png", "mime_type": one.media_type, "data": one.data}}],
        [{"fileData": {"mimeType": one.media_type, "fileUri": one.address}}],
    ]


def make_body(wire_format: str, content: Any, **members: Any) -> dict[str, Any]:
    """The body of a request with the content of one turn, besides the model and the stream."""
    if wire_format == "generate":
        return {"contents": [{"role": "user", "parts": [{"text": "Look."}, *content]}], **members}
    if wire_format == "responses":
        return {"input": [{"role": "user", "content": content}], **members}
    limit = {"max_tokens": 99} if wire_format == "messages" else {}
    return {"messages": [{"role": "user", "content": content}], **limit, **members}


_ESCAPED = json.dumps({"of": CANARY}).replace("z", "\\u007a")


def _make_chat_calls(
    name: str = "look", call_id: str = "call_1", arguments: str = "{}", result: Any = "ok"
) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": result},
        ]
    }


def _make_message_calls(**changes: Any) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    result = {
        "type": "tool_result",
        "tool_use_id": changes.get("id", "toolu_1"),
        "content": changes.pop("content", "ok"),
    }
    return {
        "max_tokens": 99,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{**call, **changes}]},
            {"role": "user", "content": [result]},
        ],
    }


def _make_response_calls(**changes: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    output = {
        "type": "function_call_output",
        "call_id": changes.get("call_id", "call_1"),
        "output": changes.pop("output", "ok"),
    }
    return {"input": [{"role": "user", "content": "Hi"}, {**call, **changes}, output]}


def _make_gemini_calls(response: Any = None, **changes: Any) -> dict[str, Any]:
    call = {"name": "look", "args": {}, **changes}
    result = {"functionResponse": {"name": call["name"], "response": response or {"result": "ok"}}}
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"functionCall": call}]},
            {"role": "user", "parts": [result]},
        ]
    }


_SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "object", "properties": {CANARY: {"type": "string"}}},
    {"type": "object", "properties": {"a": {"type": "string", "enum": [CANARY]}}},
    {"type": "object", "properties": {"a": {"type": "integer", "enum": [NUMBER]}}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": [CANARY]},
    {"type": "object", "properties": {"a": {"type": "string", "description": f"![x](data:text/plain;base64,{PLAIN})"}}},
)
_BIG = int(f"{NUMBER}{NUMBER}")
PLACES: dict[str, tuple[dict[str, Any], ...]] = {
    "chat": (
        *(
            _make_chat_calls(arguments=text)
            for text in (f'{{"card": {NUMBER}}}', _ESCAPED, f'{{"{CANARY}": 1}}', f"[{NUMBER}.0]")
        ),
        _make_chat_calls(name=CANARY),
        _make_chat_calls(call_id=f"call_{CANARY}"),
        *(_make_chat_calls(result=text) for text in (_ESCAPED, f'{{"card": {NUMBER}}}', f" [{NUMBER}]")),
        *(
            make_body("chat", "Hi", tools=[{"type": "function", "function": {"name": "look", "parameters": schema}}])
            for schema in _SCHEMAS
        ),
        make_body("chat", [{"type": "text", "text": f"![x](data:text/plain;base64,{PLAIN})"}]),
        make_body("chat", [{"type": "file", "file": {"file_id": CANARY, "filename": CANARY}}]),
        *(
            make_body("chat", "Hi", **members)
            for members in (
                {"user": CANARY},
                {"metadata": {CANARY: "1"}},
                {"metadata": {"a": CANARY}},
                {"metadata": {"a": NUMBER}},
                {"metadata": {"a": _BIG}},
                {"prompt_cache_key": CANARY},
                {"unknown": {"deep": [{"n": NUMBER}]}},
            )
        ),
    ),
    "responses": (
        *(_make_response_calls(arguments=text) for text in (f'{{"card": {NUMBER}}}', _ESCAPED, f'{{"{CANARY}": 1}}')),
        _make_response_calls(name=CANARY),
        _make_response_calls(call_id=f"call_{CANARY}"),
        _make_response_calls(id=f"fc_{CANARY}"),
        *(_make_response_calls(output=text) for text in (_ESCAPED, f'{{"card": {NUMBER}}}')),
        *(
            make_body("responses", "Hi", tools=[{"type": "function", "name": "look", "parameters": one}])
            for one in _SCHEMAS
        ),
        make_body("responses", [{"type": "input_file", "file_data": PLAIN, "filename": CANARY}]),
        *(make_body("responses", "Hi", **members) for members in ({"user": CANARY}, {"metadata": {CANARY: "1"}})),
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": PLAIN},
            ]
        },
    ),
    "messages": (
        *(
            _make_message_calls(input=value)
            for value in ({"card": NUMBER}, {CANARY: 1}, {"of": [[float(NUMBER)]]}, {"n": _BIG})
        ),
        _make_message_calls(name=CANARY),
        _make_message_calls(id=f"toolu_{CANARY}"),
        *(
            _make_message_calls(content=text)
            for text in (_ESCAPED, f'{{"card": {NUMBER}}}', f"see data:text/plain;base64,{PLAIN} ")
        ),
        *(make_body("messages", "Hi", tools=[{"name": "look", "input_schema": schema}]) for schema in _SCHEMAS),
        make_body(
            "messages",
            [
                {
                    "type": "document",
                    "title": CANARY,
                    "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                }
            ],
        ),
        make_body("messages", "Hi", metadata={"user_id": CANARY}),
        {
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "Hi"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm", "signature": PLAIN},
                        {"type": "text", "text": "Ho"},
                    ],
                },
                {"role": "user", "content": "Hi"},
            ],
        },
        {
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "Hi"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm", "signature": "json:" + _ESCAPED.replace(" ", "")},
                        {"type": "text", "text": "Ho"},
                    ],
                },
                {"role": "user", "content": "Hi"},
            ],
        },
    ),
    "generate": (
        *(
            _make_gemini_calls(args=value)
            for value in ({"card": NUMBER}, {CANARY: 1}, {"of": [[float(NUMBER)]]}, {"n": _BIG})
        ),
        _make_gemini_calls(name=CANARY),
        _make_gemini_calls(id=f"id_{CANARY}"),
        _make_gemini_calls(response={"card": NUMBER}),
        _make_gemini_calls(response={"result": _ESCAPED}),
        *(
            make_body(
                "generate",
                [],
                tools=[{"functionDeclarations": [{"name": "look", "description": "x", "parametersJsonSchema": one}]}],
            )
            for one in _SCHEMAS
        ),
        make_body("generate", [{"inlineData": {"mimeType": "text/plain", "data": encode("x"), "displayName": CANARY}}]),
        make_body(
            "generate",
            [{"inlineData": {"mimeType": "text/plain", "data": encode("x")}, "inline_data": {"data": PLAIN}}],
        ),
        make_body("generate", [{"text": "x", "thoughtSignature": PLAIN}]),
    ),
}


def find_canary(raw: bytes) -> str | None:
    """The text in which a body holds the canary after any decoding; None without one."""
    text = raw.decode("utf-8", "replace")
    strings = [text]
    with contextlib.suppress(ValueError):
        strings += _list_strings(json.loads(text))
    for one in strings:
        for reading in _read(one, 3):
            if _FOUND.search(reading):
                return reading
    return None


def _read(text: str, depth: int) -> Iterator[str]:
    """The readings of a string by lenient readers."""
    yield text
    if depth == 0 or len(text) < 4:
        return
    if "%" in text:
        yield from _read(unquote(text), depth - 1)
        yield from _decode(unquote(text, "latin-1").encode("latin-1", "ignore"))
    if "\\u" in text:
        yield from _read(re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text), depth - 1)
    for piece in {text, text.rpartition(",")[2], *re.findall(r"[A-Za-z0-9+/_=-]{12,}", text)}:
        for decode in _DECODERS:
            try:
                yield from _decode(decode(piece))
            except ValueError:
                continue


def _decode(raw: bytes) -> Iterator[str]:
    for charset in _CHARSETS:
        for start in (0, 1):
            yield raw[start:].decode(charset, "ignore")


def _decode_pieces(text: str) -> bytes:
    """Base64 with padding in the middle, piece by piece."""
    return b"".join(base64.b64decode(one + "=" * (-len(one) % 4)) for one in re.split("=+", text) if one)


_DECODERS: tuple[Callable[[str], bytes], ...] = (
    lambda text: base64.b64decode(text + "=="),
    lambda text: base64.urlsafe_b64decode(text + "=="),
    lambda text: base64.b64decode(re.sub(r"[^A-Za-z0-9+/]", "", text) + "=="),
    _decode_pieces,
)


def _list_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _list_strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _list_strings(member)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(int(value)) if abs(value) < 1e300 else ""
