"""Requests to every operation and lane, and what their answers must match (`schemas`).

Chats are answered by scripted vendors (`vendor_answers`) and by the embedded models. All other operations are answered by the
embedded models: directly, and through a second gateway, whose upstream is the first by the provider plugins openai and gemini.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from qa.conformance.schemas import faults
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer
from tests.support.vendor_chats import ASK, CALLERS, HEADERS, KEY, TOOL_SCHEMA, VENDORS, Exchange, ask_chat, read_events

EMBEDDED = """
  local-chat: {provider: local}
  local-embed: {provider: local}
  local-moderation: {provider: local}
  local-image-1: {provider: local, image_family: one}
  local-image-2: {provider: local, image_family: two}
  local-image-3: {provider: local, image_family: three}
  local-image-edit: {provider: local}
  local-tts: {provider: local}
  local-video: {provider: local}
  local-realtime: {provider: local}
"""
INNER_CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {EMBEDDED}
  text-embedding-3-small: {{provider: local, model: local-embed}}
  gemini-embedding-001: {{provider: local, model: local-embed}}
  omni-moderation-latest: {{provider: local, model: local-moderation}}
  dall-e-2: {{provider: local, model: local-image-1, image_family: one}}
  dall-e-3: {{provider: local, model: local-image-2, image_family: two}}
  gpt-image-1: {{provider: local, model: local-image-edit, image_family: three}}
  gemini-2.5-flash-image: {{provider: local, model: local-image-3, image_family: three}}
  gpt-4o-mini-tts: {{provider: local, model: local-tts}}
  gemini-2.5-flash-preview-tts: {{provider: local, model: local-tts}}
  sora-2: {{provider: local, model: local-video}}
keys: [{{name: test, key: {KEY}}}]
"""
CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
providers:
  local: {{plugin: local}}
  by-openai: {{plugin: openai, preset: openai, base_url: "{inner}/v1", api_key: {key}}}
  by-gemini: {{plugin: gemini, base_url: "{inner}", api_key: {key}}}
  chat: {{plugin: openai, base_url: "{scripted}/chat/v1", api_key: scripted-key}}
  responses: {{plugin: openai, base_url: "{scripted}/responses/v1", api_key: scripted-key, api: responses}}
  messages: {{plugin: anthropic, base_url: "{scripted}", api_key: scripted-key}}
  generate: {{plugin: gemini, base_url: "{scripted}", api_key: scripted-key}}
models: {embedded}
  "by-openai/*": {{provider: by-openai}}
  "by-gemini/*": {{provider: by-gemini}}
  of-chat: {{provider: chat, model: gpt-4o}}
  of-responses: {{provider: responses, model: gpt-5.2}}
  of-messages: {{provider: messages, model: claude-sonnet-4-5}}
  of-generate: {{provider: generate, model: gemini-3-pro-preview}}
fetch: {{allow_private: true}}
keys: [{{name: test, key: {key}}}]
"""


@contextlib.contextmanager
def running_site(folder: Path, upstream: Upstream) -> Iterator[str]:
    """Run both gateways; yields the URL of the one that is asked."""
    with contextlib.ExitStack() as stack:
        urls: list[str] = []
        for name in ("inner", "outer"):
            (folder / name).mkdir()
            conf = INNER_CONF
            if urls:
                conf = CONF.format(inner=urls[0], scripted=upstream.url, key=KEY, embedded=EMBEDDED)
            gateway = Gateway.start(conf, folder / name)
            stack.callback(gateway.stop)
            urls.append(gateway.url)
        yield urls[-1]


def check(url: str, upstream: Upstream, exchange: Exchange) -> list[str]:
    """Make the request; returns what is wrong with its answer."""
    if exchange.upstream is not None:
        upstream.reset()
        upstream.script(exchange.upstream)
    body = {"data": exchange.body, "files": exchange.files} if exchange.files else {"json": exchange.body}
    if exchange.method == "GET":
        body = {}
    headers = dict(exchange.headers)
    with httpx.Client(trust_env=False, timeout=60, headers=headers) as client:
        response = client.request(exchange.method, url + exchange.path, **body)
    if response.status_code != exchange.status:
        return [f"{response.status_code}: {response.text[:500]}"]
    if not exchange.streamed:
        return faults(exchange.shape, response.content)
    events = read_events(response.text)
    found = [f"{fault} in {event[:200]}" for event in events for fault in faults(exchange.shape, event)]
    return found if events else ["the stream has no events"]


def vendor_chats() -> Iterator[Exchange]:
    """Every pair of a caller's route and an upstream's."""
    for caller in CALLERS:
        for vendor, make_answer in VENDORS.items():
            for streamed in (False, True):
                for calls in (False, True) if caller != "completions" else (False,):
                    exchange = ask_chat(caller, f"of-{vendor}", streamed=streamed, calls=calls, thinks=vendor != "chat")
                    yield replace(exchange, upstream=make_answer(streamed=streamed, calls=calls))


def embedded_chats() -> Iterator[Exchange]:
    for caller in CALLERS:
        for streamed in (False, True):
            yield ask_chat(caller, "local-chat", streamed=streamed)
            if caller != "completions":
                yield ask_chat(caller, "local-chat", streamed=streamed, calls=True)
                yield ask_chat(caller, "local-chat", streamed=streamed, thinks=True)


LANES = {
    "": ("local-embed", "local-moderation", "local-image-1", "local-image-2", "local-image-3", "local-image-edit", "local-tts",
         "local-video"),
    "by-openai/": ("text-embedding-3-small", "omni-moderation-latest", "dall-e-2", "dall-e-3", "gpt-image-1", "gpt-image-1",
                   "gpt-4o-mini-tts", "sora-2"),
    "by-gemini/": ("gemini-embedding-001", "", "", "", "gemini-2.5-flash-image", "", "gemini-2.5-flash-preview-tts", ""),
}  # fmt: skip
"""By lane: its models for embeddings, moderation, the three families of images, edits, speech and videos; "" for none."""


VARIANTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("chat", "cut", {"max_completion_tokens": 3}),
    ("chat", "two choices", {"n": 2}),
    ("chat", "json", {"response_format": {"type": "json_object"}}),
    ("chat", "functions", {"functions": [{"name": "look", "parameters": TOOL_SCHEMA}], "function_call": {"name": "look"}}),
    ("chat", "custom tool", {"tools": [{"type": "custom", "custom": {"name": "patch"}}], "tool_choice": "required"}),
    ("completions", "cut", {"max_tokens": 3, "echo": True}),
    ("responses", "cut", {"max_output_tokens": 16}),
    ("responses", "settings", {"instructions": "Be brief.", "metadata": {"a": "b"}, "temperature": 0.5, "user": "me"}),
    ("responses", "json", {"text": {"format": {"type": "json_schema", "name": "place", "schema": TOOL_SCHEMA}}}),
    ("responses", "custom tool", {"tools": [{"type": "custom", "name": "patch"}], "tool_choice": "required"}),
    ("messages", "cut", {"max_tokens": 2}),
    ("messages", "stopped", {"stop_sequences": ["e"]}),
    ("generate", "cut", {"generationConfig": {"maxOutputTokens": 3}}),
    ("generate", "json", {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": TOOL_SCHEMA}}),
)  # fmt: skip
"""By the caller's route: members of a body that change the shape of the answer."""


def variants() -> Iterator[Exchange]:
    """Answers of the embedded model that are cut, stopped, of a form that was asked for, or several."""
    for caller, name, members in VARIANTS:
        for streamed in (False, True):
            exchange = ask_chat(caller, "local-chat", streamed=streamed)
            body = {**(exchange.body or {}), **members}
            yield replace(exchange, name=f"{exchange.name}, {name}", body=body)


def failures() -> Iterator[Exchange]:
    """Responses whose upstream's stream breaks off, in the other formats."""
    for vendor, missing in (("chat", 3), ("messages", 2), ("generate", 1)):
        text = "".join(str(step) for step in VENDORS[vendor](streamed=True, calls=False).steps)
        frames = text.strip().split("\n\n")
        broken = answer("\n\n".join([*frames[:-missing], ""]), headers={"content-type": "text/event-stream"})
        exchange = ask_chat("responses", f"of-{vendor}", streamed=True)
        yield replace(exchange, name=f"{exchange.name}, broken off", upstream=broken)


def other_operations() -> Iterator[Exchange]:
    """Embeddings, moderation, images, speech and videos: at the embedded models, and through each provider."""
    for lane, names in LANES.items():
        embed, moderation, *families, edits, speech, video = [name and lane + name for name in names]
        body: dict[str, Any] = {"model": embed, "input": ["a", "b"]}
        yield Exchange(name=f"{lane}embeddings", path="/v1/embeddings", body=body, shape="embeddings")
        content = {"content": {"parts": [{"text": "a"}]}}
        batch = {"requests": [{"model": f"models/{embed}", **content}]}
        for method, body, shape in (
            ("embedContent", content, "gemini embedding"), ("batchEmbedContents", batch, "gemini embeddings")
        ):  # fmt: skip
            yield Exchange(name=lane + method, path=f"/v1beta/models/{embed}:{method}", body=body, shape=shape)
        if moderation:
            body = {"model": moderation, "input": ["kill them all", "a fox"]}
            yield Exchange(name=f"{lane}moderation", path="/v1/moderations", body=body, shape="moderation")
        yield from _images(lane, families, edits)
        body = {"model": speech, "input": "Hi", "voice": "alloy", "stream_format": "sse"}
        yield Exchange(name=f"{lane}speech", path="/v1/audio/speech", body=body, shape="speech event", streamed=True)
        yield _generated(speech, "AUDIO")
        if video:
            body = {"model": video, "prompt": "a fox", "seconds": "4", "size": "720x1280"}
            yield Exchange(name=f"{lane}video", path="/v1/videos", body=body, shape="video")


def _images(lane: str, families: list[str], edits: str) -> Iterator[Exchange]:
    path = "/v1/images/generations"
    for model in filter(None, families):
        yield Exchange(name=model, path=path, body={"model": model, "prompt": "a fox"}, shape="images")
    yield _generated(families[-1], "IMAGE")
    body = {"model": families[-1], "prompt": "a fox", "stream": True, "partial_images": 1}
    yield Exchange(name=f"{lane}images, streamed", path=path, body=body, shape="image event", streamed=True)
    for streamed in (False, True) if edits else ():
        yield Exchange(
            name=f"{lane}image edit{', streamed' if streamed else ''}",
            path="/v1/images/edits",
            body={"model": edits, "prompt": "a fox", **({"stream": "true"} if streamed else {})},
            files={"image": ("picture.png", _picture(), "image/png")},
            shape="image edit event" if streamed else "images",
            streamed=streamed,
        )


def _generated(model: str, modality: str) -> Exchange:
    body = {"contents": [{"parts": [{"text": "a fox"}]}], "generationConfig": {"responseModalities": [modality]}}
    path = f"/v1beta/models/{model}:generateContent"
    return Exchange(name=f"{model} generates {modality}", path=path, body=body, shape="generated")


def lists_and_errors() -> Iterator[Exchange]:
    """Lists of models, counts of tokens, client secrets, and errors, by format."""
    plain = {name: value for name, value in HEADERS.items() if name != "anthropic-version"}
    google = {"x-goog-api-key": KEY, "x-goog-api-client": "google-genai-sdk/3.4.0 gl-python/3.11"}
    hello = [{"role": "user", "content": ASK}]
    session = {"session": {"type": "realtime", "model": "local-realtime", "audio": {"output": {"voice": "alloy"}}}}
    path = "/v1/realtime/client_secrets"
    yield Exchange(name="client secret", path=path, body=session, shape="client secret", headers=plain)
    for format_name, path, headers in (
        ("openai", "/v1/models", plain), ("anthropic", "/v1/models", HEADERS), ("gemini", "/v1beta/models", google)
    ):  # fmt: skip
        yield Exchange(
            name=f"{format_name} models", method="GET", path=path, shape=f"{format_name} models", headers=headers
        )
    for format_name, headers in (("openai", plain), ("anthropic", HEADERS)):
        path = "/v1/models/local-chat"
        yield Exchange(
            name=f"{format_name} model", method="GET", path=path, shape=f"{format_name} model", headers=headers
        )
    body: dict[str, Any] = {"model": "local-chat", "messages": hello}
    yield Exchange(name="message count", path="/v1/messages/count_tokens", body=body, shape="message count")
    body = {"contents": [{"parts": [{"text": ASK}]}]}
    yield Exchange(
        name="gemini count",
        path="/v1beta/models/local-chat:countTokens",
        body=body,
        shape="gemini count",
        headers=google,
    )
    for format_name, path in (("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")):
        for status, body in ((400, {"model": "local-chat"}), (404, {"model": "nobody", "messages": hello})):
            shape = f"{format_name} error"
            yield Exchange(name=f"{shape} {status}", path=path, body=body, shape=shape, status=status)


def _picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGBA", (1024, 1024), (200, 80, 20, 255)).save(file, "PNG")
    return file.getvalue()


def all_exchanges() -> Mapping[str, list[Exchange]]:
    return {
        "chats of scripted vendors": list(vendor_chats()),
        "chats of the embedded model": [*embedded_chats(), *variants()],
        "streams that break off": list(failures()),
        "other operations": list(other_operations()),
        "lists, counts, client secrets and errors": list(lists_and_errors()),
    }
