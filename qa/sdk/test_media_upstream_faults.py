"""What callers see beyond chat when an upstream refuses, limits, breaks off or talks nonsense."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from qa.sdk.media_answers import file, image_stream, make_answer, speech_events, task, text_of
from qa.sdk.media_files import picture_file, sound_file
from qa.sdk.media_gateway import CONF, KEY, UPSTREAM_KEY, post
from tests.support.gateway import Gateway
from tests.support.upstream import Close, Hang, Upstream, answer, sse

PICTURE = picture_file((8, 8))
Asking = Callable[[openai.OpenAI, str], Any]

ASKED: dict[str, tuple[str, Asking]] = {
    "vectors": (
        "scripted/text-embedding-{}",
        lambda client, model: client.embeddings.create(model=model, input="Hi"),
    ),
    "verdicts": (
        "scripted/omni-moderation-{}",
        lambda client, model: client.moderations.create(model=model, input="Hi"),
    ),
    "pictures": (
        "scripted/gpt-image-{}",
        lambda client, model: client.images.generate(model=model, prompt="A cat"),
    ),
    "edits": (
        "scripted/gpt-image-e{}",
        lambda client, model: client.images.edit(model=model, prompt="A cat", image=("a.png", PICTURE)),
    ),
    "speech": (
        "scripted/tts-{}",
        lambda client, model: client.audio.speech.create(model=model, input="Hi", voice="alloy"),
    ),
    "transcripts": (
        "scripted/whisper-{}",
        lambda client, model: client.audio.transcriptions.create(model=model, file=("a.wav", sound_file(0.1))),
    ),
    "gemini's vectors": (
        "scripted-gemini/embedding-{}",
        lambda client, model: client.embeddings.create(model=model, input="Hi"),
    ),
    "gemini's pictures": (
        "scripted-gemini/gemini-2.5-image-{}",
        lambda client, model: client.images.generate(model=model, prompt="A cat"),
    ),
    "gemini's speech": (
        "scripted-gemini/gemini-2.5-tts-{}",
        lambda client, model: client.audio.speech.create(model=model, input="Hi", voice="Kore"),
    ),
    "model studio's pictures": (
        "scripted-dash/qwen-image-2.{}",
        lambda client, model: client.images.generate(model=model, prompt="A cat"),
    ),
}
FAULTS = ("refused", "limited", "keyless", "empty", "page", "nothing")
OTHERS = (
    "scripted/gpt-image-broken",
    "scripted/tts-broken",
    "scripted/gpt-broken-tts",
    "scripted/tts-left",
    "scripted/gpt-image-left",
    "scripted-gemini/embedding-few",
    "scripted-dash/wan2.2-t2i-dead",
    "scripted-dash/wan2.2-t2i-left",
)
EACH = pytest.mark.parametrize(("name", "ask"), ASKED.values(), ids=ASKED)


@pytest.fixture(scope="module")
def media(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway where every fault has a model of its own, and so a circuit of its own."""
    names = [*(name.format(fault) for name, _ in ASKED.values() for fault in FAULTS), *OTHERS]
    head, wildcards, tail = CONF.partition('  "scripted/*"')
    named = "".join(
        f'  "{name}": {{{{provider: {provider}, model: "{model}"}}}}\n'
        for name in names
        for provider, _, model in [name.partition("/")]
    )
    conf = (head + named + wildcards + tail).format(scripted=upstream_process.url, upstream_key=UPSTREAM_KEY, key=KEY)
    started = Gateway.start(conf, tmp_path_factory.mktemp("faults"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def client(media: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{media.url}/v1", api_key=KEY, max_retries=0, timeout=20) as client:
        yield client


def fault(message: str, **rest: Any) -> str:
    return json.dumps(
        {"error": {"message": message, "type": "t", "param": None, "code": "c"}, "message": message, **rest}
    )


@EACH
def test_refusal_keeps_its_status_and_words(client: openai.OpenAI, upstream: Upstream, name: str, ask: Asking) -> None:
    upstream.script(answer(fault("The cat is unfit.", code="InvalidParameter"), status=400))
    with pytest.raises(openai.BadRequestError, match="The cat is unfit"):
        ask(client, name.format("refused"))


@EACH
def test_limit_of_an_upstream_says_when_to_come_again(
    client: openai.OpenAI, upstream: Upstream, name: str, ask: Asking
) -> None:
    headers = {"content-type": "application/json", "retry-after": "7"}
    upstream.script(answer(fault("Slow down.", code="Throttling"), status=429, headers=headers))
    with pytest.raises(openai.RateLimitError) as caught:
        ask(client, name.format("limited"))
    assert caught.value.response.headers["retry-after"] == "7"


@EACH
def test_refused_key_is_not_the_callers_fault(
    client: openai.OpenAI, upstream: Upstream, name: str, ask: Asking
) -> None:
    upstream.script(answer(fault(f"Incorrect key {UPSTREAM_KEY}.", code="InvalidApiKey"), status=401))
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client, name.format("keyless"))
    assert caught.value.status_code == 502
    assert UPSTREAM_KEY not in caught.value.response.text


@EACH
@pytest.mark.parametrize(("what", "said"), [("empty", "{}"), ("page", "<html>busy</html>"), ("nothing", "")])
def test_answer_that_is_none_is_a_fault_of_the_upstream(
    client: openai.OpenAI, upstream: Upstream, name: str, ask: Asking, what: str, said: str
) -> None:
    media_type = "text/html" if "html" in said else "application/json"
    upstream.script(answer(said, headers={"content-type": media_type}))
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client, name.format(what))
    assert caught.value.status_code == 502


def test_pictures_that_break_off_are_an_error(client: openai.OpenAI, upstream: Upstream) -> None:
    partial = image_stream([PICTURE], PICTURE).steps[0]
    assert isinstance(partial, str)
    upstream.script(answer(partial.split("\n\n")[0] + "\n\n", Close()))
    stream = client.images.generate(model="scripted/gpt-image-broken", prompt="A cat", stream=True, partial_images=1)
    assert next(stream).type == "image_generation.partial_image"
    with pytest.raises(openai.APIError):
        next(stream)


def test_sound_that_breaks_off_is_not_a_whole_file(client: openai.OpenAI, upstream: Upstream) -> None:
    headers = {"content-type": "audio/mpeg", "content-length": "1000000"}
    upstream.script(answer(b"ID3" + b"\0" * 300_000, Close(), headers=headers))
    with (
        client.audio.speech.with_streaming_response.create(
            model="scripted/tts-broken", input="Hi", voice="alloy"
        ) as said,
        pytest.raises(Exception, match=r"(?i)peer closed|incomplete|disconnect|connection"),
    ):
        said.read()


def test_speech_in_events_that_breaks_off_ends_with_an_error(media: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(sse({"type": "speech.audio.delta", "audio": text_of(b"\1\2")}), Close()))
    body = {"model": "scripted/gpt-broken-tts", "input": "Hi", "voice": "alloy", "stream_format": "sse"}
    got = post(media, "/v1/audio/speech", body)
    *_, last = [line for line in got.body.split(b"\n") if line.startswith(b"data:")]
    assert got.status == 200
    assert json.loads(last.removeprefix(b"data:"))["error"]["message"]


@pytest.mark.parametrize("model", ["scripted/tts-left", "scripted/gpt-image-left"])
def test_leaving_a_stream_closes_the_upstream(client: openai.OpenAI, upstream: Upstream, model: str) -> None:
    if "tts" in model:
        upstream.script(answer(b"\1\2" * 150_000, Hang(), headers={"content-type": "audio/pcm"}))
        speech = client.audio.speech.with_streaming_response
        with speech.create(model=model, input="Hi", voice="alloy", response_format="pcm") as said:
            assert next(said.iter_bytes(1000))
    else:
        first = image_stream([PICTURE], PICTURE).steps[0]
        assert isinstance(first, str)
        upstream.script(answer(first.split("\n\n")[0] + "\n\n", Hang()))
        with client.images.generate(model=model, prompt="A cat", stream=True, partial_images=1) as stream:
            assert next(iter(stream)).type == "image_generation.partial_image"
    upstream.wait_until_closed(0)


def test_fewer_vectors_than_inputs_are_never_handed_on(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(make_answer({"embeddings": [{"values": [1.0]}]}))
    with pytest.raises(openai.InternalServerError, match="1 vector"):
        client.embeddings.create(model="scripted-gemini/embedding-few", input=["a", "b"])


def test_picture_whose_address_is_dead_is_a_fault_of_the_upstream(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(
        file(b"gone", "text/plain", path="/oss/"),
        task("PENDING"),
        task("SUCCEEDED", results=[{"url": f"{upstream.url}/oss/1.png"}]),
    )
    with pytest.raises(openai.InternalServerError) as caught:
        client.images.generate(model="scripted-dash/wan2.2-t2i-dead", prompt="A cat")
    assert caught.value.status_code == 502
    assert upstream.url not in caught.value.response.text


def test_task_that_the_caller_left_is_cancelled(media: Gateway, upstream: Upstream) -> None:
    upstream.script(task("PENDING"), answer(Hang()), make_answer({}, path="/api/v1/tasks"))
    with (
        openai.OpenAI(base_url=f"{media.url}/v1", api_key=KEY, max_retries=0, timeout=0.5) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        client.images.generate(model="scripted-dash/wan2.2-t2i-left", prompt="A cat")
    requests = upstream.wait_for_requests(3)
    assert requests[2].path.endswith("/cancel")


def test_speech_events_of_an_upstream_become_the_sound_that_was_asked_for(
    client: openai.OpenAI, upstream: Upstream
) -> None:
    upstream.script(speech_events(b"\1\2", b"\3\4"))
    said = client.audio.speech.create(
        model="scripted/gpt-4o-mini-tts", input="Hi", voice="alloy", response_format="pcm"
    )
    assert said.content == b"\1\2\3\4"
