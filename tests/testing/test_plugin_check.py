"""tornado-gate plugins check: what it finds in plugins with planted faults, and that it finds nothing in good ones."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.guides import find_example
from tests.support.variants import vary
from tests.testing.strangers import install
from tornado_gate.cli import cli
from tornado_gate.plugins.path_files import PathFile
from tornado_gate.testing.conformance.report import PluginReport, render_report
from tornado_gate.testing.conformance.run import check_plugin

CONFORMANCE = """
from tornado_gate.testing import Conformance, json_answer, sse_answer

def answer(request):
    if request.json["stream"]:
        return sse_answer({"word": "Grüße "}, {"word": "an "}, {"word": "alle "}, {"word": "drei."}, {"why": "done"})
    return json_answer({"text": "Grüße an alle."})

conformance = Conformance(answer=answer, sends_key=False)
"""
FAULTY = """
import asyncio
from tornado_gate import provider_impl, sse, types

LEFT = []

async def forever():
    await asyncio.Event().wait()

@provider_impl
def translate_request(call, request):
    LEFT.append(asyncio.ensure_future(forever()))
    streams = isinstance(request, types.ChatRequest) and request.stream
    return types.UpstreamRequest(url=f"{call.target.base_url}/say?key={call.target.api_key}", json={"stream": streams})

@provider_impl
async def translate_response(call, request, incoming):
    yield types.ResponseStart(model="m")
    yield types.PartStart(index=0, kind="text")
    if request.stream:
        chunks = [chunk async for chunk in incoming.chunks]
        for chunk in chunks:
            for line in chunk.decode("utf-8", "replace").splitlines():
                if "word" in line:
                    yield types.PartDelta(index=0, data=line)
    else:
        body = await incoming.read()
        yield types.PartDelta(index=0, data=str(__import__("json").loads(body)["text"]))
    yield types.PartEnd(index=0)
    yield types.Finish(reason="stop")
"""
SWALLOWING = """
from tornado_gate import format_impl

@format_impl(wrapper=True)
def translate_error():
    yield
    return b'{"error": "something"}'
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The examples of the docs, and two plugins with faults; their folder is on the path."""
    folder = tmp_path_factory.mktemp("strangers")
    acme = find_example("# tornado_gate_acme.py")
    shipped = find_example("# tornado_gate_acme_conformance.py")
    install(folder, "acme", tornado_gate_acme=acme, tornado_gate_acme_conformance=shipped)
    install(folder, "faulty", tornado_gate_faulty=FAULTY, tornado_gate_faulty_conformance=CONFORMANCE)
    install(folder, "swallowing", tornado_gate_swallowing=SWALLOWING)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


def run_check(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plugins", "check", *arguments])


@pytest.mark.usefixtures("site")
def test_the_example_of_the_guide_passes() -> None:
    done = run_check("acme")
    assert done.exit_code == 0, done.output
    assert re.search(r"^chat +format-openai +common: \d+ ok", done.stdout, re.M), done.output
    assert "acme: passed" in done.stdout


@pytest.mark.qa
@pytest.mark.usefixtures("site")
def test_planted_faults_are_found_and_named() -> None:
    done = run_check("--json", "faulty", "swallowing")
    assert done.exit_code == 1, done.output
    faulty, swallowing = json.loads(done.stdout)
    found = {(one["check"], bit) for one in faulty["failures"] for bit in MARKS if bit in one["what"]}
    assert found >= EXPECTED, json.dumps(faulty["failures"], indent=1)[:6000]
    (problem, *_) = swallowing["failures"]
    assert problem["check"] == "unchanged"
    assert "+" in problem["what"]
    assert "something" in problem["what"]


MARKS = (
    "in the URL",
    "still run",
    "Other events",
    "RuntimeError",
    "JSONDecodeError",
    "bytes to a caller",
)
EXPECTED = {
    ("secrets", "in the URL"),  # the key
    ("chunk borders", "Other events"),  # lines read from chunks
    ("faults", "JSONDecodeError"),  # an exception that is no GateError
    ("back-pressure", "bytes to a caller"),
    ("cancellation", "still run"),  # a task of each request
}


@pytest.mark.usefixtures("site")
def test_faults_of_usage_are_exit_code_two() -> None:
    for arguments, said in ((("no-such-plugin",), "installed: "), ((), "--all"), (("acme", "--all"), "--all")):
        done = run_check(*arguments)
        assert (done.exit_code, said in done.output) == (2, True), (arguments, done.output)


FIRST_PARTY: dict[str, Any] = {
    "anthropic": {("chat", "verbatim", True), ("chat", "common", True), ("count_tokens", "common", False)},
    "dashscope": {("images", "common", False), ("image_edits", "common", False)},
    "cascade": {("realtime", "common", True)},
    "kling": {("videos", "common", False)},
    "cache": {("chat", "common", True), ("transcription", "common", False)},
    "format-anthropic": {("chat", "verbatim", True), ("chat", "common", False), ("count_tokens", "verbatim", False)},
    "format-gemini": {("embeddings", "verbatim", False), ("chat", "verbatim", True), ("images", "common", True)},
}
"""Of some plugins: operation, lane and stream of cells that must be ok."""


@pytest.mark.parametrize(
    "name", vary("kling", "format-anthropic", "anthropic", "dashscope", "cascade", "cache", "format-gemini")
)
def test_a_first_party_plugin_passes(name: str) -> None:
    report: PluginReport = asyncio.run(check_plugin(name))
    assert report.passed, render_report(report)
    worked = {(row.operation, row.lane, row.streamed) for row in report.rows if row.outcome == "ok"}
    assert worked >= FIRST_PARTY[name], render_report(report)


def test_files_that_run_at_each_start_of_python_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = PathFile(path=Path("litellm_init.pth"), distribution="litellm", lines=("import os",))
    monkeypatch.setattr("tornado_gate.plugins.path_files.find_path_files", lambda: [foreign])
    result = run_check("cascade")
    assert result.exit_code == 0, result.output
    assert "warning: litellm_init.pth: a .pth file of litellm runs code at each start of Python" in result.stderr
