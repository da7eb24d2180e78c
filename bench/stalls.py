"""Sends large requests to a gateway, and lets it get large answers: how long does each block the gateway's event loop?

Usage: python -m bench.stalls [--traces FILE] [CASE ...]. Prints a table. Columns: `block` is the longest time in ms in which the
event loop of the gateway's process ran nothing else, without what other processes of the machine take (`bench/probed.py`);
`late` the same by the clock; `seconds` how long the request took; then the status. Each case is sent twice, and the second
time is measured: the first loads modules.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.attacks import wait_until_ready
from bench.side import ROOT, end, find_free_port

MIB = 1024 * 1024
KEY, ROOT_KEY = "caller-key-0123456789", "administrator-key-0123456789"
CONF = """
server: {{access_log: false, data_dir: {data}}}
plugins: {{openai: true, anthropic: true, gemini: true, local: true}}
providers:
  local: {{plugin: local}}
  o: {{plugin: openai, base_url: "http://127.0.0.1:{upstream}/v1", api_key: upstream-key-0123456789}}
  r: {{plugin: openai, base_url: "http://127.0.0.1:{upstream}/v1", api_key: upstream-key-0123456789, responses: true}}
  a: {{plugin: anthropic, base_url: "http://127.0.0.1:{upstream}", api_key: upstream-key-0123456789}}
  g: {{plugin: gemini, base_url: "http://127.0.0.1:{upstream}", api_key: upstream-key-0123456789}}
models:
  local-chat: {{provider: local}}
  local-embed: {{provider: local}}
  local-moderation: {{provider: local}}
  local-image-2: {{provider: local}}
  local-image-edit: {{provider: local}}
  local-tts: {{provider: local}}
  "o/*": {{provider: o}}
  "r/*": {{provider: r}}
  "a/*": {{provider: a}}
  "g/*": {{provider: g}}
keys:
  - {{name: caller, key: {key}}}
  - {{name: budgeted, key: {key}-budget, budget: {{tokens_per_day: 1000000000}}}}
  - {{name: root, key: {root}, role: administrator}}
limits: {{body_bytes: 67108864}}
fetch: {{allow_private: true}}
"""


@dataclass(frozen=True, slots=True)
class Probed:
    """A running gateway with a probe in its event loop."""

    port: int
    process: int
    memory: Path
    conf: Path

    def post(self, path: str, body: bytes, key: str = KEY, kind: str = "application/json", **headers: str) -> str:
        return self.send("POST", path, body, {"Authorization": f"Bearer {key}", "Content-Type": kind, **headers})

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            read = answer.read()
            if os.environ.get("SHOW"):
                print(read[:300])
            code = ""
            if answer.status >= 400:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    code = " " + json.loads(read)["error"]["code"]
            return f"{answer.status}{code}, {len(read)} bytes"
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()

    def reset(self) -> None:
        with self.memory.open("r+b") as file:  # the file must never be empty: it is mapped
            file.write(bytes(16))

    def read(self) -> tuple[float, float]:
        """The longest stall since `reset`, and the longest time by the clock, in ms."""
        time.sleep(0.05)
        stall, late = struct.unpack("dd", self.memory.read_bytes())
        return stall * 1000, late * 1000


Case = Callable[[Probed], str]
CASES: dict[str, Case] = {}
WIDE_ENTRIES = 10_000
CONFS: dict[str, Callable[[], str]] = {
    "usual": lambda: CONF,
    "raised": lambda: CONF.replace("67108864", "67108864, body_values: 100000000"),
    "wide": lambda: widen(CONF),
}
"""The configurations of cases: `raised` has a limits.body_values far above the default, `wide` 10,000 keys and models more."""
USED_CONFS: dict[str, str] = {}


def case(name: str, send: Case, *, conf: str = "usual") -> None:
    """Add a case with one of CONFS."""
    CASES[name] = send
    USED_CONFS[name] = conf


def widen(conf: str) -> str:
    models = "".join(f'  "many/{n}": {{{{provider: o, model: model-{n}}}}}\n' for n in range(WIDE_ENTRIES))
    keys = "".join(f"  - {{{{name: many-{n}, key: many-key-{n:020}}}}}\n" for n in range(WIDE_ENTRIES))
    return conf.replace("keys:\n", f"{models}keys:\n{keys}", 1)


def chat(model: str, **more: object) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hello"}], **more}).encode()


def messages(model: str, **more: object) -> bytes:
    return json.dumps(
        {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}], **more}
    ).encode()


def inputs(model: str, **more: object) -> bytes:
    return json.dumps({"model": model, "input": "hello", **more}).encode()


def embeddings(model: str, given: str | list[str]) -> bytes:
    return json.dumps({"model": model, "input": given}).encode()


def contents(**more: object) -> bytes:
    return json.dumps({"contents": [{"role": "user", "parts": [{"text": "hello"}]}], **more}).encode()


CHAT, R, A, E = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"
VERSION = {"anthropic-version": "2023-06-01"}


def to(path: str, body: Callable[[], bytes], *, key: str = KEY) -> Case:
    """A POST of `body` to `path`."""
    headers = VERSION if path.startswith(A) else {}
    return lambda gateway: gateway.post(path, body(), key, **headers)


def g(model: str, verb: str = "generateContent") -> str:
    return f"/v1beta/models/{model}:{verb}"


WORDS = "word " * 2_000_000
LANES = {
    "O verbatim": (CHAT, chat, "o/x"),
    "O to A": (CHAT, chat, "a/x"),
    "O to G": (CHAT, chat, "g/x"),
    "O to local": (CHAT, chat, "local-chat"),
    "A to O": (A, messages, "o/x"),
    "A verbatim": (A, messages, "a/x"),
    "R verbatim": (R, inputs, "r/x"),
    "R to O": (R, inputs, "o/x"),
    "R to A": (R, inputs, "a/x"),
}


def add_requests() -> None:
    for model in ("o/x", "g/x", "local-embed"):
        case(
            f"embeddings of one text of 2,000,000 words, {model}",
            to(E, partial(embeddings, model, WORDS)),
        )
        case(
            f"embeddings of 2,000,000 texts, {model}",
            to(E, partial(embeddings, model, ["word"] * 2_000_000)),
            conf="raised",
        )
        case(
            f"embeddings of 450,000 texts, {model}",
            to(E, partial(embeddings, model, ["w"] * 450_000)),
        )
    for name, (path, make, model) in LANES.items():
        long = "x" * (50 * MIB)
        if path == R:
            case(f"50 MiB of text, {name}", to(path, partial(make, model, input=long)))
            many: dict[str, object] = {"input": [{"role": "user", "content": "hi"}] * 18_000}
        else:
            turn: list[object] = [{"role": "user", "content": long}]
            case(f"50 MiB of text, {name}", to(path, partial(make, model, messages=turn)))
            many = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}] * 9_000}
        case(f"18,000 messages, {name}", to(path, partial(make, model, **many)))
        more = {one: value * 6 for one, value in many.items()}  # type: ignore[operator]
        case(
            f"100,000 messages, {name}",
            to(path, partial(make, model, **more)),
            conf="raised",
        )
        tool = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "d"} for n in range(200)}}
        if path == A:
            tools: list[object] = [{"name": f"t{n}", "input_schema": tool} for n in range(100)]
        elif path == R:
            tools = [{"type": "function", "name": f"t{n}", "parameters": tool} for n in range(100)]
        else:
            tools = [{"type": "function", "function": {"name": f"t{n}", "parameters": tool}} for n in range(100)]
        case(f"100 tools of 200 fields, {name}", to(path, partial(make, model, tools=tools)))
        if path != R:
            image = "iVBORw0KGgo" + "A" * (40 * MIB)
            block: object = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
            if path == A:
                block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}
            turn = [{"role": "user", "content": [block]}]
            case(f"image of 40 MiB, {name}", to(path, partial(make, model, messages=turn)))


def add_odd_requests() -> None:
    case("500,000 stop words, O verbatim", to(CHAT, lambda: chat("o/x", stop=["w"] * 490_000)))
    case("500,000 stop words, O to A", to(CHAT, lambda: chat("a/x", stop=["w"] * 490_000)))
    case("500,000 stop words, O to local", to(CHAT, lambda: chat("local-chat", stop=["w"] * 490_000)))
    case("500,000 stop words, A to O", to(A, lambda: messages("o/x", stop_sequences=["w"] * 490_000)))
    case(
        "400,000 metadata of 1 level, O verbatim",
        to(CHAT, lambda: chat("o/x", metadata={str(n): 1 for n in range(90_000)})),
    )
    case(
        "logit_bias of 90,000 tokens, O to G",
        to(CHAT, lambda: chat("g/x", logit_bias={str(n): 1 for n in range(90_000)})),
    )
    case("extra members, O to A", to(CHAT, lambda: chat("a/x", **{f"n{n}": 1 for n in range(90_000)})))
    deep = (
        b'{"model": "o/x", "messages": [{"role": "user", "content": "x", "extra": '
        + b"[" * 45_000
        + b"]" * 45_000
        + b"}]}"
    )
    case("nesting of 45,000", to(CHAT, lambda: deep))
    wide = b'{"model": "o/x", "x": [' + b",".join([b"[" * 100 + b"]" * 100] * 480) + b'], "messages": []}'
    case("480 times 100 levels", to(CHAT, lambda: wide))
    case("64 KiB of empty objects", to(CHAT, lambda: b'{"model": "a/x", "messages": [' + b"{}," * 21_000 + b"{}]}"))
    case("60 KiB of strings", to(CHAT, lambda: b'{"model": "a/x", "messages": [' + b'"",' * 20_000 + b'""]}'))
    case("60 KiB of messages, O to A", to(CHAT, lambda: chat("a/x", messages=[{"role": "user", "content": ""}] * 1600)))
    case(
        "60 KiB of messages, A to O", to(A, lambda: messages("o/x", messages=[{"role": "user", "content": "a"}] * 1600))
    )
    case("not JSON, 60 MiB", to(CHAT, lambda: b"x" * (60 * MIB)))
    case("JSON string of 60 MiB", to(CHAT, lambda: b'"' + b"x" * (60 * MIB) + b'"'))
    case(
        "60 MiB of escapes",
        to(
            CHAT,
            lambda: b'{"model": "o/x", "messages": [{"role": "user", "content": "' + b"\\u00e4" * (9 * MIB) + b'"}]}',
        ),
    )
    case(
        "60 MiB of escapes, O to A",
        to(
            CHAT,
            lambda: b'{"model": "a/x", "messages": [{"role": "user", "content": "' + b"\\u00e4" * (9 * MIB) + b'"}]}',
        ),
    )
    case(
        "60 MiB of white space",
        to(CHAT, lambda: b'{"model": "o/x",' + b" " * (60 * MIB) + b'"messages": [{"role": "user", "content": "x"}]}'),
    )
    case("tool arguments of 30 MiB, O to A", to(CHAT, lambda: chat("a/x", messages=tool_call("x" * (30 * MIB)))))
    arguments = json.dumps({"a": ["w"] * 450_000})
    case(
        "tool arguments of 450,000 values, O to A",
        to(CHAT, lambda: chat("a/x", messages=tool_call(arguments, plain=True))),
    )
    case(
        "tool arguments of 450,000 values, O to G",
        to(CHAT, lambda: chat("g/x", messages=tool_call(arguments, plain=True))),
    )
    schema: object = {
        "type": "object",
        "properties": {
            f"p{n}": {
                "type": "object",
                "properties": {"q": {"type": "string"}},
                "required": ["q"],
                "additionalProperties": False,
            }
            for n in range(8_000)
        },
        "additionalProperties": False,
    }
    for name, (path, make, model) in LANES.items():
        if path == CHAT:
            form = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}
            case(
                f"schema of 8,000 objects, {name}",
                to(path, partial(make, model, response_format=form)),
            )


def add_other_routes() -> None:
    case(
        "G: 50 MiB of text to O",
        to(g("o/x"), lambda: contents(contents=[{"role": "user", "parts": [{"text": "x" * (50 * MIB)}]}])),
    )
    case(
        "G: 18,000 parts to O",
        to(g("o/x"), lambda: contents(contents=[{"role": "user", "parts": [{"text": "x"}] * 25_000}])),
    )
    case(
        "G: 18,000 parts to G",
        to(g("g/x"), lambda: contents(contents=[{"role": "user", "parts": [{"text": "x"}] * 25_000}])),
    )
    case(
        "G: count tokens of 50 MiB",
        to(
            g("o/x", "countTokens"),
            lambda: contents(contents=[{"role": "user", "parts": [{"text": "x y " * (12 * MIB)}]}]),
        ),
    )
    case(
        "A: count tokens of 50 MiB",
        to(A + "/count_tokens", lambda: messages("o/x", messages=[{"role": "user", "content": "x y " * (12 * MIB)}])),
    )
    case(
        "budgeted key, 50 MiB",
        to(CHAT, lambda: chat("o/x", messages=[{"role": "user", "content": "x y " * (12 * MIB)}]), key=KEY + "-budget"),
    )
    case(
        "moderation of 50 MiB, local",
        to("/v1/moderations", lambda: json.dumps({"model": "local-moderation", "input": WORDS * 5}).encode()),
    )
    case(
        "moderation of 100,000 texts, local",
        to("/v1/moderations", lambda: json.dumps({"model": "local-moderation", "input": ["kill"] * 100_000}).encode()),
    )
    case(
        "moderation of 50 MiB, o",
        to("/v1/moderations", lambda: json.dumps({"model": "o/x", "input": WORDS * 5}).encode()),
    )
    case(
        "speech of 30 MiB, local",
        to(
            "/v1/audio/speech",
            lambda: json.dumps({"model": "local-tts", "input": "x" * (30 * MIB), "voice": "alloy"}).encode(),
        ),
    )
    case(
        "image prompt of 30 MiB, local",
        to(
            "/v1/images/generations",
            lambda: json.dumps({"model": "local-image-2", "prompt": "x" * (30 * MIB)}).encode(),
        ),
    )
    case(
        "image of 4096 pixels, local",
        to(
            "/v1/images/generations",
            lambda: json.dumps(
                {"model": "local-image-2", "prompt": "x", "size": "1024x1024", "n": 4, "response_format": "b64_json"}
            ).encode(),
        ),
    )
    case(
        "completions of 40 MiB, o",
        to("/v1/completions", lambda: json.dumps({"model": "o/x", "prompt": "x" * (40 * MIB)}).encode()),
    )
    case(
        "completions of 40 MiB, a",
        to("/v1/completions", lambda: json.dumps({"model": "a/x", "prompt": "x" * (40 * MIB)}).encode()),
    )
    case(
        "_explain of 50 MiB, O to A",
        to(f"/v1/_explain?route={CHAT}", lambda: chat("a/x", messages=[{"role": "user", "content": "x" * (50 * MIB)}])),
    )
    case(
        "_explain of 18,000 messages, O to A",
        to(f"/v1/_explain?route={CHAT}", lambda: chat("a/x", messages=[{"role": "user", "content": "x"}] * 18_000)),
    )


def add_heads_and_forms() -> None:
    case(
        "query of 60 KiB",
        lambda gateway: gateway.post(
            CHAT + "?" + "&".join(f"a{n}={n}" for n in range(90)) + "&b=" + "%41" * 20_000, chat("o/x")
        ),
    )
    case(
        "query of 8,000 parameters",
        lambda gateway: gateway.post(CHAT + "?" + "&".join(f"a{n}" for n in range(9_000)), chat("o/x")),
    )
    case("header of 60 KiB", lambda gateway: gateway.post(CHAT, chat("o/x"), **{"x-large": "x" * 60_000}))
    case(
        "100 headers of 600 B",
        lambda gateway: gateway.post(CHAT, chat("o/x"), **{f"x-h{n}": "x" * 600 for n in range(95)}),
    )
    case("model name of 30 MiB", to(CHAT, lambda: chat("o/" + "x" * (30 * MIB))))
    case(
        "previous_response_id of 30 MiB",
        to(
            R,
            lambda: json.dumps(
                {"model": "o/x", "input": "x", "previous_response_id": "resp_" + "x" * (30 * MIB)}
            ).encode(),
        ),
    )
    case("form of 100,000 fields", form_of(b"".join(field(f"f{n}", b"v") for n in range(100_000))))
    case("form of 100,000 empty files", form_of(b"".join(field(f"f{n}", b"v", "x.png") for n in range(100_000))))
    case(
        "form with a field of 50 MiB", form_of(field("model", b"local-image-edit") + field("prompt", b"x" * (50 * MIB)))
    )
    case(
        "form with an image of 50 MiB, o",
        form_of(field("model", b"o/x") + field("prompt", b"x") + field("image", PNG + bytes(50 * MIB), "x.png")),
    )
    case(
        "form with an image of 50 MiB, local",
        form_of(
            field("model", b"local-image-edit") + field("prompt", b"x") + field("image", PNG + bytes(50 * MIB), "x.png")
        ),
    )
    case(
        "form with an audio of 20 MiB, o",
        form_of(field("model", b"o/x") + field("file", b"RIFF" + bytes(20 * MIB), "x.wav"), "/v1/audio/transcriptions"),
    )
    case(
        "form with one header of 50 MiB",
        form_of(b'--b\r\nContent-Disposition: form-data; name="' + b"x" * (50 * MIB) + b'"\r\n\r\nv\r\n'),
    )


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\x02\0\0\0"


def field(name: str, value: bytes, filename: str = "") -> bytes:
    file = f'; filename="{filename}"\r\nContent-Type: image/png' if filename else ""
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + value + b"\r\n"


def form_of(body: bytes, path: str = "/v1/images/edits") -> Case:
    whole = body + b"--b--\r\n"
    return lambda gateway: gateway.post(path, whole, kind="multipart/form-data; boundary=b")


def tool_call(argument: str, *, plain: bool = False) -> list[object]:
    text = argument if plain else json.dumps({"a": argument})
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]


ANSWERS = (
    "text-30",
    "tool-30",
    "event-5",
    "event-15",
    "events-small",
    "text-long-stream",
    "logprobs",
    "choices-128",
    "tool-values",
)


def add_answers() -> None:
    """Answers of the upstream, by the model that is asked for (bench/large_answers.py)."""
    for kind in ANSWERS:
        for name, (path, make, model) in LANES.items():
            if "local" in name:
                continue
            provider = model.split("/")[0]
            asked = f"{provider}/{kind}"
            streams = kind.startswith(("event", "text-long"))
            more: dict[str, object] = {"stream": True} if streams else {}
            case(f"answer {kind}, {name}", to(path, partial(make, asked, **more)))
    case(
        "answer of 2,048 vectors of 3,072, O verbatim",
        to(E, lambda: json.dumps({"model": "o/vectors", "input": ["x"] * 2048}).encode()),
    )
    case(
        "answer of 2,048 vectors as base64, O verbatim",
        to(
            E,
            lambda: json.dumps({"model": "o/vectors-64", "input": ["x"] * 2048, "encoding_format": "base64"}).encode(),
        ),
    )
    case(
        "answer of 100 vectors of 3,072, O to G",
        to(E, lambda: json.dumps({"model": "g/vectors", "input": ["x"] * 100}).encode()),
    )
    case(
        "answer of an image of 20 MiB, o",
        to(
            "/v1/images/generations",
            lambda: json.dumps({"model": "o/image", "prompt": "x", "response_format": "b64_json"}).encode(),
        ),
    )
    case(
        "answer of an image of 20 MiB, o, as url",
        to("/v1/images/generations", lambda: json.dumps({"model": "o/image", "prompt": "x"}).encode()),
    )
    case(
        "answer of 30 MiB of completions, o",
        to("/v1/completions", lambda: json.dumps({"model": "o/text-30", "prompt": "x"}).encode()),
    )
    case(
        "answer of 30 MiB of completions, a",
        to("/v1/completions", lambda: json.dumps({"model": "a/text-30", "prompt": "x"}).encode()),
    )
    for model in ("o/text-30", "g/text-30"):
        case(f"G: answer of 30 MiB, {model}", to(g(model), contents))
    for model in ("o/event-5", "g/event-5", "o/event-15", "g/event-15"):
        case(f"G: one event, {model}", to(g(model, "streamGenerateContent?alt=sse"), contents))


def get(path: str) -> Case:
    """A GET of `path` by an administrator."""
    return lambda gateway: gateway.send("GET", path, None, {"Authorization": f"Bearer {ROOT_KEY}"})


def add_wide_configurations() -> None:
    """What depends on the number of entries in conf."""
    case("reload of 10,000 keys and 10,000 models", reload_conf, conf="wide")
    for path in ("/v1/models", "/metrics", "/admin/v1/models", "/admin/v1/keys", "/admin/v1/usage", "/openapi.json"):
        case(f"{path} with 10,000 keys and models", get(path), conf="wide")


def reload_conf(gateway: Probed) -> str:
    """Add a model to the configuration, and wait until the gateway has it."""
    text = gateway.conf.read_text(encoding="utf-8")
    name = f"reloaded-{len(text)}"
    gateway.conf.write_text(text.replace("models:\n", f"models:\n  {name}: {{provider: local}}\n", 1), encoding="utf-8")
    os.kill(gateway.process, signal.SIGHUP)
    while (outcome := get(f"/v1/models/{name}")(gateway)).startswith("404"):
        time.sleep(0.1)
    return outcome


@contextlib.contextmanager
def run_probed(upstream: int, template: str = CONF, traces: Path | None = None) -> Iterator[Probed]:
    """Run the gateway of this checkout with a probe."""
    port = find_free_port()
    with tempfile.TemporaryDirectory() as data:
        conf, memory = Path(data, "gate.yaml"), Path(data, "probe")
        text = template.format(data=Path(data, "var"), upstream=upstream, key=KEY, root=ROOT_KEY)
        conf.write_text(text, encoding="utf-8")
        memory.write_bytes(bytes(16))
        command = [sys.executable, "-m", "bench.probed", str(memory), "serve", "--conf", str(conf), "--port", str(port)]
        quiet = None if os.environ.get("SHOW") else subprocess.DEVNULL
        environment = {**os.environ, **({"STALL_TRACES": str(traces)} if traces else {})}
        child = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet, start_new_session=True, env=environment)
        try:
            wait_until_ready(port, child)
            yield Probed(port, child.pid, memory, conf)
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def measure(name: str, gateway: Probed) -> float:
    """Send a case twice and print what the second one caused. Returns its stall in ms."""
    send = CASES[name]
    send(gateway)
    gateway.reset()
    started = time.monotonic()
    outcome = send(gateway)
    seconds = time.monotonic() - started
    stall, late = gateway.read()
    print(f"| {name} | {stall:.0f} | {late:.0f} | {seconds:.1f} | {outcome} |", flush=True)
    return stall


def main(options: argparse.Namespace) -> None:
    add_requests()
    add_odd_requests()
    add_other_routes()
    add_heads_and_forms()
    add_answers()
    add_wide_configurations()
    chosen = [name for name in CASES if not options.cases or any(one in name for one in options.cases)]
    upstream = find_free_port()
    large = subprocess.Popen(
        [sys.executable, "-m", "bench.large_answers", str(upstream)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert large.stdout
    large.stdout.readline()
    print("| case | block ms | late ms | seconds | answer |\n|---|---|---|---|---|")
    longest = 0.0
    try:
        for conf, make in CONFS.items():
            these = [name for name in chosen if USED_CONFS[name] == conf]
            if these:
                with run_probed(upstream, make(), options.traces) as gateway:
                    for name in these:
                        if options.traces:
                            with options.traces.open("a", encoding="utf-8") as file:
                                print(f"\n##### {name}", file=file)
                        longest = max(longest, measure(name, gateway))
    finally:
        end(large)
    print(f"longest block: {longest:.0f} ms; load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="parts of the names of cases; default: all", metavar="CASE")
    parser.add_argument("--traces", type=Path, help="write the stacks of stalls to this file")
    main(parser.parse_args())
