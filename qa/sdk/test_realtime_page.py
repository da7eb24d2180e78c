"""Conversations by voice in a real browser: a page of another origin, which holds a client secret and no lasting key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from qa.sdk import realtime_gateway
from qa.sdk.realtime_gateway import KEY, UPSTREAM_KEY, Stage
from tests.support.node import run_script
from tests.support.ws_upstream import WsUpstream

stage = realtime_gateway.stage
upstream = realtime_gateway.upstream

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>A page that talks</title>
<link rel="icon" href="data:,">
<p id="words"></p>
<p id="samples">0</p>
<p id="protocol"></p>
<p id="state">connecting</p>
<script type="module">
const { url, secret, update, question, seconds, names } = SETTINGS;
const show = (id, text) => { document.getElementById(id).textContent = text; };
const socket = new WebSocket(url, ["realtime", `openai-insecure-api-key.${secret}`]);
const send = (event) => socket.send(JSON.stringify(event));
let words = "", samples = 0, over = false;

const end = (state) => {
  if (!over) show("state", state);
  over = true;
};

// A hum of the browser's own making, as PCM16 in base64.
const hum = async () => {
  const context = new OfflineAudioContext(1, 24000 * seconds, 24000);
  const oscillator = new OscillatorNode(context, { frequency: 220 });
  oscillator.connect(context.destination);
  oscillator.start();
  const wave = (await context.startRendering()).getChannelData(0);
  const bytes = new Uint8Array(Int16Array.from(wave, (sample) => sample * 32767).buffer);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
};

const ask = async () => {
  send({ type: "session.update", session: update });
  if (seconds) {
    send({ type: "input_audio_buffer.append", audio: await hum() });
    send({ type: "input_audio_buffer.commit" });
  } else {
    const content = [{ type: "input_text", text: question }];
    send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  }
  send({ type: "response.create" });
};

socket.onopen = () => show("protocol", socket.protocol);
socket.onmessage = ({ data }) => {
  const event = JSON.parse(data);
  if (event.type === "session.created") ask();
  if (event.type === names.text || event.type === names.transcript) show("words", (words += event.delta));
  if (event.type === names.audio) show("samples", (samples += atob(event.delta).length / 2));
  if (event.type === "error") end(`error ${event.error.message}`);
  if (event.type === "response.done") {
    end(`done ${event.response.status}`);
    socket.close(1000);
  }
};
socket.onclose = ({ code }) => end(`closed ${code}`);
</script>
"""
CONTRACT = {
    "text": "response.text.delta",
    "audio": "response.audio.delta",
    "transcript": "response.audio_transcript.delta",
}
CURRENT = {
    "text": "response.output_text.delta",
    "audio": "response.output_audio.delta",
    "transcript": "response.output_audio_transcript.delta",
}
WRITTEN: list[tuple[dict[str, str], dict[str, Any]]] = [
    (CONTRACT, {"modalities": ["text"]}),
    (CURRENT, {"type": "realtime", "output_modalities": ["text"]}),
]
SPOKEN: list[tuple[dict[str, str], dict[str, Any]]] = [
    (CONTRACT, {"modalities": ["text", "audio"], "turn_detection": None}),
    (CURRENT, {"type": "realtime", "output_modalities": ["audio"], "audio": {"input": {"turn_detection": None}}}),
]
DIALECTS = ["contract", "current"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the browser is unpacked, once: 200 MB."""
    folder = tmp_path_factory.mktemp("browser")
    yield folder
    shutil.rmtree(folder)


def make_secret(stage: Stage, model: str) -> str:
    """What the server of a page asks of the gateway, with its lasting key."""
    response = httpx.post(
        f"{stage.base_url}/realtime/client_secrets",
        json={"session": {"type": "realtime", "model": model}},
        headers={"authorization": f"Bearer {KEY}"},
        trust_env=False,
    )
    secret: str = response.raise_for_status().json()["value"]
    return secret


def visit(
    stage: Stage,
    browser: Path,
    model: str,
    names: dict[str, str],
    update: dict[str, Any],
    *,
    secret: str,
    host: str = "127.0.0.1",
    **settings: Any,
) -> dict[str, Any]:
    """What became of a page; that it saw no lasting key, whatever became of it, is asserted."""
    url = f"{stage.socket_url}?model={model}"
    told = {"url": url, "secret": secret, "update": update, "names": names, "question": "good morning", "seconds": 0}
    stage.pages["/page.html"] = PAGE.replace("SETTINGS", json.dumps({**told, **settings}))
    page = f"http://{host}:{stage.page_port}/page.html"
    result: dict[str, Any] = run_script("realtime_page.mjs", page, environment={"TMPDIR": str(browser)})
    everything = json.dumps(result)
    assert secret in everything
    assert KEY not in everything
    assert UPSTREAM_KEY not in everything
    assert result["faults"] == []
    return result


@pytest.mark.parametrize(("names", "update"), WRITTEN, ids=DIALECTS)
def test_a_page_shows_the_words_of_an_upstream(
    stage: Stage, upstream: WsUpstream, browser: Path, names: dict[str, str], update: dict[str, Any]
) -> None:
    secret = make_secret(stage, "voice")
    texts = visit(stage, browser, "voice", names, update, secret=secret)["texts"]
    assert texts == {
        "words": "You said: good morning",
        "samples": "0",
        "protocol": "realtime",
        "state": "done completed",
    }
    assert secret not in json.dumps([upstream.headers, upstream.uris, upstream.received])


@pytest.mark.parametrize(("names", "update"), WRITTEN, ids=DIALECTS)
def test_a_page_shows_the_words_of_the_embedded_model(
    stage: Stage, browser: Path, names: dict[str, str], update: dict[str, Any]
) -> None:
    secret = make_secret(stage, "local-realtime")
    texts = visit(stage, browser, "local-realtime", names, update, secret=secret)["texts"]
    assert (texts["state"], texts["protocol"]) == ("done completed", "realtime")
    assert texts["words"]


@pytest.mark.parametrize(("names", "update"), SPOKEN, ids=DIALECTS)
def test_a_page_speaks_and_is_spoken_to(
    stage: Stage, browser: Path, names: dict[str, str], update: dict[str, Any]
) -> None:
    secret = make_secret(stage, "local-realtime")
    texts = visit(stage, browser, "local-realtime", names, update, secret=secret, seconds=0.5)["texts"]
    assert texts["state"] == "done completed"
    assert "0.5 seconds of sound" in texts["words"]
    assert int(texts["samples"]) > 24000 / 2


def test_a_page_of_an_origin_that_was_not_agreed_on_is_refused(
    stage: Stage, upstream: WsUpstream, browser: Path
) -> None:
    """To a browser, ``localhost`` is another origin than the address of this machine."""
    secret = make_secret(stage, "voice")
    names, update = WRITTEN[0]
    texts = visit(stage, browser, "voice", names, update, secret=secret, host="localhost")["texts"]
    assert (texts["state"], texts["words"]) == ("closed 1006", "")
    assert upstream.connections == []


def test_a_page_whose_secret_is_for_another_model_is_refused(stage: Stage, upstream: WsUpstream, browser: Path) -> None:
    secret = make_secret(stage, "local-realtime")
    names, update = WRITTEN[0]
    texts = visit(stage, browser, "voice", names, update, secret=secret)["texts"]
    assert (texts["state"], texts["words"]) == ("closed 1006", "")
    assert upstream.connections == []


def test_a_page_with_a_secret_that_nobody_made_is_refused(stage: Stage, upstream: WsUpstream, browser: Path) -> None:
    names, update = WRITTEN[0]
    texts = visit(stage, browser, "voice", names, update, secret="ek_that-nobody-made")["texts"]
    assert (texts["state"], texts["words"]) == ("closed 1006", "")
    assert upstream.connections == []
