"""What a request needs is imported when it needs it, or soon after the start; nothing of it is lost by that."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.gates import KEY
from tests.support.process import Child
from tests.support.variants import choose
from tornado_gate import format_impl, lazy_import
from tornado_gate.cli import cli
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lazy_import import take_waiting
from tornado_gate.wire import conversation_formats as formats
from tornado_gate_anthropic.wire import messages
from tornado_gate_openai.wire import chat

SERVE = """
import sys
from pathlib import Path
from tornado_gate.plugins import host as plugins
from tornado_gate.server.process import process as serve

def ready(text):
    print("at the start: " + " ".join(sorted(sys.modules)))  # one write: log lines come between several
    print(text, flush=True)

def load_deferred_modules(host):
    faults = import_rest(host)
    print("after a moment: " + " ".join(sorted(sys.modules)), flush=True)
    return faults

import_rest, plugins.PluginHost.load_deferred_modules = plugins.PluginHost.load_deferred_modules, load_deferred_modules
serve.LOAD_DELAY_SECONDS = float(sys.argv[2])
serve.run(Path(sys.argv[1]), serve.Overrides(), ready)
"""
NEVER = "3600"
CONF = """
server: {port: 0, data_dir: FOLDER/var}
plugins: {openai: true}
providers:
  up: {plugin: openai, base_url: "UPSTREAM/v1", api_key: sk-upstream}
models:
  m: {provider: up}
  draws: {provider: up, operations: [images, image_edits]}
  speaks: {provider: up, operations: [speech]}
defaults: {images: m}
keys:
  - {name: k, key: THE_KEY}
"""
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # 1 x 1
CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
}
DRAWN = {"created": 1, "data": [{"b64_json": PICTURE}]}
ANSWERS: Mapping[str, Any] = {
    "/v1/chat/completions": CHAT,
    "/v1/embeddings": {
        "object": "list",
        "model": "m",
        "data": [{"object": "embedding", "index": 0, "embedding": [1.0]}],
    },
    "/v1/moderations": {
        "id": "x",
        "model": "m",
        "results": [{"flagged": False, "categories": {}, "category_scores": {}}],
    },
    "/v1/images/generations": DRAWN,
    "/v1/images/edits": DRAWN,
    "/v1/audio/speech": b"ID3 sound",
    "/v1/audio/transcriptions": {"text": "Hello"},
    "/v1/videos": {"id": "video_1", "object": "video", "status": "queued", "model": "m", "progress": 0},
}


class Upstream(BaseHTTPRequestHandler):
    """Has one answer for each path."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = ANSWERS[self.path]
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "audio/mpeg" if isinstance(answer, bytes) else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Served:
    """A gateway in a process of its own, which says what it has imported; the rest is imported after `rest` seconds."""

    def __init__(self, folder: Path, upstream: str, rest: str = NEVER, before: str = "") -> None:
        file = folder / "gate.yaml"
        conf = CONF.replace("FOLDER", str(folder)).replace("UPSTREAM", upstream).replace("THE_KEY", KEY)
        file.write_text(conf, encoding="utf-8")
        self.child = Child([sys.executable, "-c", before + SERVE, str(file), rest])
        self.imported = set(self.child.wait_for_line(r"^at the start: (.*)")[1].split())
        self.url = self.child.wait_for_line(r"^tornado-gate: serving (http://\S+)")[1]

    def ask(self, path: str, body: bytes, content_type: str) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": content_type, "anthropic-version": "2023-06-01"}
        request = urllib.request.Request(self.url + path, body, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()


def test_a_server_starts_without_what_no_request_has_needed_yet(tmp_path: Path, upstream: str) -> None:
    served = Served(tmp_path, upstream)
    served.child.stop()
    unneeded = {
        "aiohttp",
        *(f"tornado_gate_openai.format.{name}" for name in ("embeddings", "images", "realtime", "speech", "videos")),
        *(f"tornado_gate_openai.provider.{name}" for name in ("media", "realtime", "videos")),
        *(
            f"tornado_gate.wire.{name}"
            for name in ("anthropic_messages", "gemini_generate", "openai_images", "openai_realtime")
        ),
        "tornado_gate_anthropic.format.lanes",
        "tornado_gate_gemini.format.lanes",
    }
    assert unneeded & served.imported == set()
    assert {"tornado_gate_openai.wire.chat", "tornado_gate_openai.format.conversations"} <= served.imported


def form(field: str, filename: str, data: bytes) -> tuple[bytes, str]:
    lines = (
        '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
        '--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nA lake\r\n'
        f'--b\r\nContent-Disposition: form-data; name="{field}"; filename="{filename}"\r\n\r\n'
    )
    return lines.encode() + data + b"\r\n--b--\r\n", "multipart/form-data; boundary=b"


def as_json(**members: Any) -> tuple[bytes, str]:
    return json.dumps(members).encode(), "application/json"


SAID = [{"role": "user", "content": "Hi"}]
CONTENTS = [{"parts": [{"text": "Hi"}]}]
FIRST = {
    "chat": ("/v1/chat/completions", as_json(model="m", messages=SAID), b'"Hello"'),
    "responses": ("/v1/responses", as_json(model="m", input="Hi"), b'"Hello"'),
    "completions": ("/v1/completions", as_json(model="m", prompt="Hi"), b'"Hello"'),
    "messages": ("/v1/messages", as_json(model="m", max_tokens=9, messages=SAID), b'"Hello"'),
    "generateContent": ("/v1beta/models/m:generateContent", as_json(contents=CONTENTS), b'"Hello"'),
    "a drawn generateContent": ("/v1beta/models/draws:generateContent", as_json(contents=CONTENTS), PICTURE.encode()),
    "a spoken generateContent": (
        "/v1beta/models/speaks:generateContent",
        as_json(contents=CONTENTS, generationConfig={"responseModalities": ["AUDIO"]}),
        base64.b64encode(b"ID3 sound"),
    ),
    "embedContent": ("/v1beta/models/m:embedContent", as_json(content=CONTENTS[0]), b'"values"'),
    "embeddings": ("/v1/embeddings", as_json(model="m", input="Hi"), b'"embedding"'),
    "moderations": ("/v1/moderations", as_json(model="m", input="Hi"), b'"flagged"'),
    "images": (
        "/v1/images/generations",
        as_json(model="m", prompt="A lake", response_format="b64_json"),
        b'"b64_json"',
    ),
    "images without a model": (
        "/v1/images/generations",
        as_json(prompt="A lake", response_format="b64_json"),
        b'"b64_json"',
    ),
    "edits": ("/v1/images/edits", form("image", "a.png", base64.b64decode(PICTURE)), b'"data"'),
    "speech": ("/v1/audio/speech", as_json(model="m", input="Hi", voice="alloy"), b"ID3 sound"),
    "transcriptions": ("/v1/audio/transcriptions", form("file", "a.mp3", b"ID3 sound"), b'"Hello"'),
    "videos": ("/v1/videos", as_json(model="m", prompt="A lake"), b'"video'),
    "client secrets": ("/v1/realtime/client_secrets", as_json(session={"type": "realtime", "model": "m"}), b'"value"'),
}


@pytest.mark.parametrize("operation", choose(FIRST, ("chat", "images", "videos")))
def test_each_operation_is_answered_when_it_is_the_first_that_is_asked_for(
    operation: str, tmp_path: Path, upstream: str
) -> None:
    path, asked, answer = FIRST[operation]
    served = Served(tmp_path, upstream)
    try:
        status, body = served.ask(path, *asked)
    finally:
        served.child.stop()
    assert status == 200
    assert answer in body


def test_a_server_imports_the_rest_by_itself(tmp_path: Path, upstream: str) -> None:
    served = Served(tmp_path, upstream, rest="0")
    imported = set(served.child.wait_for_line(r"^after a moment: (.*)")[1].split())
    served.child.stop()
    assert {
        "tornado_gate_openai.format.videos",
        "tornado_gate_openai.provider.media",
        "tornado_gate_gemini.format.lanes",
    } <= imported


def test_a_server_ends_when_it_is_told_although_a_module_never_comes(tmp_path: Path, upstream: str) -> None:
    package = tmp_path / "acme_late"
    package.mkdir()
    (package / "__init__.py").touch()
    hanging = "import threading\nprint('the import hangs', flush=True)\nthreading.Event().wait()\n"
    (package / "hanging.py").write_text(hanging, encoding="utf-8")
    name = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom tornado_gate import lazy_import\n"
    served = Served(tmp_path, upstream, rest="0", before=name + "lazy_import('acme_late', 'hanging')\n")
    served.child.wait_for_line("^the import hangs")

    served.child.stop()  # raises when it stays


def test_after_the_rest_no_module_of_these_plugins_is_left_for_a_request_to_import() -> None:
    code = """
import sys
from pathlib import Path
from tornado_gate.plugins.host import PluginHost
host = PluginHost()
plugins = [host.load(name) for name in ("format-openai", "format-anthropic", "format-gemini", "openai")]
assert not host.load_deferred_modules()
for plugin in plugins:
    package = Path(sys.modules[plugin.module].__file__).parent
    root = package.parents[plugin.module.count(".")]
    for file in package.rglob("*.py"):
        module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if module not in sys.modules and ".descriptions" not in module:  # for /openapi.json only
            print(module)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == ""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PluginHost]:
    """A plugin one of whose modules cannot be imported."""
    take_waiting()
    package = tmp_path / "acme_late"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "broken.py").write_text("raise RuntimeError('no such engine')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    plugin: Any = ModuleType("acme_late")
    plugin.routes = plugin.translate_request = plugin.translate_response = plugin.translate_error = format_impl(
        _nothing
    )
    host = PluginHost()
    host.add("acme", plugin)
    lazy_import("acme_late", "broken")
    yield host
    take_waiting()


def _nothing() -> None:
    """A hook that says nothing."""


def test_a_module_that_cannot_be_imported_is_a_failure_of_its_plugin_which_is_told_once(broken: PluginHost) -> None:
    told: list[tuple[str, str]] = []
    broken.on_failure.append(lambda name, detail: told.append((name, detail)))

    faults = broken.load_deferred_modules()

    assert faults == {"acme": "acme_late.broken: RuntimeError: no such engine"}
    assert told == list(faults.items())
    assert broken.load_deferred_modules() == {}


@pytest.mark.parametrize("command", [["check"], ["plugins", "list"]], ids=" ".join)
def test_the_commands_name_a_plugin_whose_rest_cannot_be_imported(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lazy_import("tornado_gate_local", "not_there")

    told = CliRunner().invoke(cli, command).output

    assert "tornado_gate_local.not_there: ModuleNotFoundError" in told
    assert "local" in told.partition("tornado_gate_local")[0].splitlines()[-1]


def test_every_wire_format_has_the_name_that_tables_know_it_by() -> None:
    assert chat.WIRE_FORMAT == formats.OPENAI_CHAT
    assert messages.WIRE_FORMAT == formats.ANTHROPIC_MESSAGES
