"""`tornado-gate plugins new`: every variant, as written: installed, tested, checked for style and types, and served."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.support.gateway import Gateway
from tests.support.process import Child
from tests.support.upstream import Upstream, answer, sse
from tornado_gate.cli import cli

ROOT = Path(__file__).parents[2]
KEY = "test-key-of-a-new-plugin"
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "own-words": (),
    "fresh": ("--provider", "--openai-compatible"),
    "newformat": ("--format",),
    "newwrap": ("--wrapper",),
}
MAX_LINES = {"own-words": 40, "fresh": 15, "newformat": 60, "newwrap": 40}
CONF = """
plugins: {{own-words: true, fresh: true, newformat: true, newwrap: {{on: true, required: true, mark: "***", models: [guarded]}}}}
providers:
  own: {{plugin: own-words, base_url: "{url}", api_key: "key-of-own"}}
  fresh: {{plugin: fresh, base_url: "{url}", api_key: "key-of-fresh"}}
models:
  own-1: {{provider: own}}
  guarded: {{provider: own, model: own-1}}
  "fresh/*": {{provider: fresh}}
keys:
  - {{name: test, key: "{key}"}}
"""
CHECK_EACH = """
import sys
from tornado_gate.cli import cli
for conf in sys.argv[1:]:
    cli.main(["check", "--conf", conf], standalone_mode=False)
"""


class Site(NamedTuple):
    """An environment in which the distributions below `folder` are installed; `python` is its interpreter."""

    folder: Path
    python: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the folder; pytest without the plugins of this environment, which take 2 s of CPU time to import."""
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["plugins", *map(str, arguments)], prog_name="tornado-gate")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The distributions of all variants, written by the command and installed as it says, without the network."""
    folder = tmp_path_factory.mktemp("new")
    for name, options in VARIANTS.items():
        result = run("new", name, *options, "--into", folder)
        assert result.exit_code == 0, result.output
    environment = folder / "venv"
    venv.create(environment, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)})
    shared = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
    Path(packages, "shared.pth").write_text(shared, encoding="utf-8")
    made = Site(folder, environment / "bin" / "python")
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    done = made.run(*install, *(f"-e./tornado-gate-{name}[test]" for name in VARIANTS))
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def gateway(site: Site, upstream_process: Upstream) -> Iterator[Gateway]:
    conf = site.folder / "gate.yaml"
    conf.write_text(CONF.format(url=upstream_process.url, key=KEY), encoding="utf-8")
    command = [str(site.python), "-m", "tornado_gate", "serve", "--conf", str(conf), "--port", "0"]
    child = Child([*command, "--data-dir", str(site.folder / "var")], folder=site.folder)
    yield Gateway(child, child.wait_for_line(r"^tornado-gate: serving (http://\S+)")[1], site.folder)
    child.stop()


def post(gateway: Gateway, path: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
    return httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False, timeout=30)


def chat(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}], **fields}


@pytest.mark.qa
def test_the_tests_of_every_variant_pass(site: Site) -> None:
    done = site.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tornado-gate-{name}" for name in VARIANTS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.qa
def test_every_variant_passes_the_conformance_kit(site: Site) -> None:
    done = site.run("-m", "tornado_gate", "plugins", "check", *VARIANTS, "--json")
    reports = {report["name"]: report for report in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert set(reports) == set(VARIANTS)


@pytest.mark.qa
def test_the_code_of_every_variant_passes_ruff_and_mypy(site: Site) -> None:
    folders = [site.folder / f"tornado-gate-{name}" for name in VARIANTS]
    for arguments in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--no-cache", *folders],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    files = [path for folder in folders for path in [*folder.glob("*.py"), *folder.glob("tests/*.py")]]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", *(path for path in files if path.name != "setup.py")],
        cwd=ROOT,  # with the settings, and the cache, of `make lint`
        env={**os.environ, "MYPYPATH": os.pathsep.join(map(str, [*folders, ROOT / "plugins" / "openai"]))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.qa
def test_the_variants_are_as_short_as_promised(site: Site) -> None:
    for name, most in MAX_LINES.items():
        module = site.folder / f"tornado-gate-{name}" / f"tornado_gate_{name.replace('-', '_')}.py"
        lines = [line for line in module.read_text(encoding="utf-8").splitlines() if line.strip()]
        assert len(lines) <= most, f"{name}: {len(lines)} lines"


def test_the_configuration_of_every_variant_is_valid(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OWN_WORDS", "FRESH"):
        monkeypatch.setenv(f"{name}_API_KEY", "a-key-of-a-vendor")
    confs = [str(site.folder / f"tornado-gate-{name}" / "gate.yaml") for name in VARIANTS]
    done = site.run("-c", CHECK_EACH, *confs)
    assert done.returncode == 0, done.stdout + done.stderr
    warnings = [line for line in done.stdout.splitlines() if ".pth" in line]
    assert len(warnings) == len(VARIANTS), "only the file of this test runs code, not those of editable installs"
    assert all(
        "shared.pth: a .pth file that no installed distribution has written runs code" in line for line in warnings
    )


@pytest.mark.qa
def test_the_provider_serves_chats_of_other_formats(gateway: Gateway, upstream: Upstream) -> None:
    frames = ({"word": "Hi"}, {"word": " there"}, {"why": "done", "in": 3, "out": 2})
    upstream.script(answer(sse(*frames)), answer(sse(*frames)), answer(sse({"word": "Hi"}, {"fault": "no more"})))
    whole = post(gateway, "/v1/chat/completions", chat("own-1", seed=3))
    assert whole.json()["choices"][0]["message"]["content"] == "Hi there", whole.text
    assert whole.headers["x-gate-loss"] == "seed"
    assert whole.json()["usage"]["completion_tokens"] == 2
    assert post(gateway, "/v1/messages", chat("own-1", stream=True)).text.count("content_block_delta") == 4
    broken = post(gateway, "/v1/chat/completions", chat("own-1", stream=True))
    assert "no more" in broken.text
    sent = [json.loads(request.body) for request in upstream.requests]
    assert sent[0] == {"model": "own-1", "limit": 9, "turns": [{"who": "user", "says": "Hello"}]}
    assert {request.headers["authorization"] for request in upstream.requests} == {"Bearer key-of-own"}


def test_the_compatible_provider_serves_both_lanes_and_embeddings(gateway: Gateway, upstream: Upstream) -> None:
    message = {"role": "assistant", "content": "Hi", "strange": True}
    body = {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}
    vectors = {
        "data": [{"index": 0, "embedding": [0.5]}],
        "model": "e",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }
    upstream.script(*(answer(json.dumps(one)) for one in (body, body, vectors)))
    forwarded = post(
        gateway, "/v1/chat/completions", chat("fresh/large", seed=3, max_tokens=None, max_completion_tokens=8)
    )
    assert forwarded.json()["choices"][0]["message"]["strange"] is True, "the answer is not forwarded as it is"
    assert forwarded.headers["x-gate-loss"] == "seed"
    translated = post(gateway, "/v1/messages", chat("fresh/large"))
    assert translated.json()["content"][0]["text"] == "Hi", translated.text
    embedded = post(gateway, "/v1/embeddings", {"model": "fresh/e", "input": "Hello"})
    assert embedded.json()["data"][0]["embedding"] == [0.5], embedded.text
    sent = [json.loads(request.body) for request in upstream.requests]
    assert [(one["model"], one.get("max_tokens"), "seed" in one) for one in sent] == [
        ("large", 8, False),
        ("large", 9, False),
        ("e", None, False),
    ]
    assert [request.path for request in upstream.requests] == ["/v1/chat/completions"] * 2 + ["/v1/embeddings"]


def test_the_format_reaches_a_provider(gateway: Gateway, upstream: Upstream) -> None:
    frames = ({"word": "Hi"}, {"word": " there"}, {"why": "done", "in": 3, "out": 2})
    upstream.script(answer(sse(*frames)), answer(sse(*frames)))
    asked = {"model": "own-1", "ask": "Hello"}
    assert post(gateway, "/newformat/ask", asked).json() == {"answer": "Hi there"}
    streamed = post(gateway, "/newformat/ask", {**asked, "stream": True})
    assert read_words(streamed) == "Hi there"
    assert streamed.text.endswith('data: {"why":"stop"}\n\n')
    wrong = post(gateway, "/newformat/ask", {**asked, "color": 1})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "color")


def test_the_wrapper_guards_requests_and_answers_of_every_format(gateway: Gateway, upstream: Upstream) -> None:
    frames = ({"word": "Ask bob@exam"}, {"word": "ple.org, please"}, {"why": "done", "in": 3, "out": 2})
    question = "Who is ann@example.org?"
    message = {"role": "user", "content": question}
    contents = [{"role": "user", "parts": [{"text": question}]}]
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/newformat/ask", {"model": "guarded", "ask": question}),
        ("/v1/chat/completions", chat("guarded", messages=[message])),
        ("/v1/messages", chat("guarded", messages=[message])),
        ("/v1/responses", {"model": "guarded", "input": question}),
        ("/v1beta/models/guarded:generateContent", {"contents": contents}),
    ]
    for path, body in requests:
        upstream.script(answer(sse(*frames)), answer(sse(*frames)))
        whole = post(gateway, path, body)
        stream = {} if "contents" in body else {"stream": True}
        streaming_path = path.replace("generateContent", "streamGenerateContent?alt=sse")
        streamed = post(gateway, streaming_path, {**body, **stream})
        for response in (whole, streamed):
            assert response.status_code == 200, f"{path}: {response.text}"
            assert "***" in response.text, f"{path}: {response.text}"
            assert "bob" not in response.text, f"{path}: {response.text}"
            assert "ple.org" not in response.text, f"{path}: {response.text}"
    sent = [json.loads(request.body)["turns"][0]["says"] for request in upstream.requests]
    assert sent == ["Who is ***?"] * 2 * len(requests)


def read_words(response: httpx.Response) -> str:
    """The text of a stream of the new format."""
    return "".join(json.loads(line[6:]).get("word", "") for line in response.text.splitlines() if line)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["9lives"], 2, "must begin with a letter"),
        (["a" * 41], 2, "at most 40 characters"),
        (["ünique"], 2, "letters, digits and hyphens"),
        (["../up"], 2, "letters, digits and hyphens"),
        (["one", "--format", "--wrapper"], 2, "cannot be combined"),
        (["one", "--format", "--openai-compatible"], 2, "is for providers"),
        (["Format_OpenAI"], 1, "pip uninstall tornado-gate-openai"),
        (["tornado-gate-local"], 1, "is installed already"),
        (["full"], 1, "is not empty"),
        (["taken"], 1, "is a file"),
        (["one", "--into", "tornado-gate-taken"], 2, "is a file"),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_way_out(
    arguments: list[str], code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tornado-gate-full").mkdir()
    (tmp_path / "tornado-gate-full" / "kept.txt").write_text("kept", encoding="utf-8")
    (tmp_path / "tornado-gate-taken").write_text("kept", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    result = run("new", *arguments)
    assert (result.exit_code, words in " ".join(result.output.split())) == (code, True), result.output
    assert sorted(tmp_path.rglob("*")) == before


def test_names_are_normalised_and_every_file_has_the_new_name(tmp_path: Path) -> None:
    result = run("new", "tornado_gate_My.Vendor", "--into", tmp_path / "below")
    folder = tmp_path / "below" / "tornado-gate-my-vendor"
    assert result.exit_code == 0, result.output
    assert (folder / "tornado_gate_my_vendor.py").is_file()
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}
    assert not [path for path, text in texts.items() if "acme" in text.lower() or "acme" in path.name]
    assert "class TestMyVendor(" in texts[folder / "tornado_gate_my_vendor_conformance.py"]
    assert {path.name for path in texts} >= {"README.md", "setup.py", ".gitignore", "test.yml", "gate.yaml"}
    for line in texts[folder / "gate.yaml"].splitlines():
        assert line in result.output
    assert "export MY_VENDOR_API_KEY=" in result.output


def test_the_guide_shows_what_is_written_and_how_long_it_is() -> None:
    guide = (ROOT / "docs" / "plugins" / "plugin-commands.md").read_text(encoding="utf-8")
    templates = ROOT / "tornado_gate" / "cli" / "templates"
    compatible = (templates / "openai_compatible" / "tornado_gate_acme.py").read_text(encoding="utf-8")
    assert f"```python\n# tornado_gate_acme.py\n{compatible}```" in guide
    for option, variant in (
        ("`--provider` (default)", "provider"),
        ("`--openai-compatible`", "openai_compatible"),
        ("`--format`", "format"),
        ("`--wrapper`", "wrapper"),
    ):
        text = (templates / variant / "tornado_gate_acme.py").read_text(encoding="utf-8")
        lines = sum(1 for line in text.splitlines() if line.strip())
        (row,) = [row for row in guide.splitlines() if row.startswith(f"| {option} ")]
        assert row.endswith(f"| {lines} |"), f"{variant} has {lines} lines"
