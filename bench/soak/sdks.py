"""Requests for text by the vendors' own SDKs, without their retries: what they raise is an error of the gateway or a lost answer.

A function takes the clients, the request, the prompt, whether to stream, and a list to which it appends the pieces of the text,
so that the caller has them if the stream fails. It raises ErrorAnswer for an error of the API, Broken for a lost connection, and
Mismatch for anything that the SDK cannot read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import anthropic
import httpx2
import openai
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

from bench.soak.formats import ErrorAnswer
from bench.soak.records import Broken, Mismatch, Request
from bench.soak.site import KEY

TIMEOUT_SECONDS = 90.0


@dataclass(slots=True)
class Clients:
    """One client of each SDK."""

    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic
    genai: Any

    @classmethod
    def connect(cls, url: str) -> Clients:
        options = genai_types.HttpOptions(base_url=url, api_version="v1beta", timeout=int(TIMEOUT_SECONDS * 1000))
        return cls(
            openai.AsyncOpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0, timeout=TIMEOUT_SECONDS),
            anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0, timeout=TIMEOUT_SECONDS),
            genai.Client(api_key=KEY, http_options=options),
        )

    async def close(self) -> None:
        await self.openai.close()
        await self.anthropic.close()
        await self.genai.aio.aclose()


@contextmanager
def read_errors(request: Request) -> Iterator[None]:
    """Turn the errors of the SDKs into those of the soak test. They connect with httpx2 or aiohttp."""
    try:
        yield
    except (openai.APIConnectionError, anthropic.APIConnectionError) as error:
        raise Broken(f"{type(error).__name__}: {error.__cause__!r}") from error
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        raise ErrorAnswer(error.status_code, error.message) from error
    except (openai.APIError, anthropic.APIError) as error:
        raise ErrorAnswer(200, error.message, True) from error
    except genai_errors.APIError as error:
        raise ErrorAnswer(int(error.code or 200), str(error.message)) from error
    except (httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
        raise Broken(repr(error)) from error
    except (UnicodeDecodeError, ValueError, TypeError, AttributeError) as error:
        raise Mismatch(f"the SDK cannot read it: {error!r}") from error
    request.status = 200


async def ask_openai(clients: Clients, request: Request, prompt: str, is_stream: bool, pieces: list[str]) -> None:
    rest: Any = {"messages": [{"role": "user", "content": prompt}], "extra_headers": {"x-request-id": request.id}}
    with read_errors(request):
        if not is_stream:
            answer = await clients.openai.chat.completions.create(model=request.model, **rest)
            pieces.append(answer.choices[0].message.content or "")
            return
        reason = None
        async for chunk in await clients.openai.chat.completions.create(model=request.model, stream=True, **rest):
            for choice in chunk.choices:
                pieces.append(choice.delta.content or "")
                reason = choice.finish_reason or reason
        if reason != "stop":
            raise Mismatch(f"finish reason {reason}")


async def ask_anthropic(clients: Clients, request: Request, prompt: str, is_stream: bool, pieces: list[str]) -> None:
    rest: Any = {
        "messages": [{"role": "user", "content": prompt}], "max_tokens": 1000,
        "extra_headers": {"x-request-id": request.id},
    }  # fmt: skip
    with read_errors(request):
        if not is_stream:
            answer = await clients.anthropic.messages.create(model=request.model, **rest)
            pieces += [part.text for part in answer.content if part.type == "text"]
            return
        async with clients.anthropic.messages.stream(model=request.model, **rest) as stream:
            async for text in stream.text_stream:
                pieces.append(text)
            if (reason := (await stream.get_final_message()).stop_reason) != "end_turn":
                raise Mismatch(f"stop reason {reason}")


async def ask_genai(clients: Clients, request: Request, prompt: str, is_stream: bool, pieces: list[str]) -> None:
    options = genai_types.HttpOptions(headers={"x-request-id": request.id})
    rest: Any = {"contents": prompt, "config": genai_types.GenerateContentConfig(http_options=options)}
    models = clients.genai.aio.models
    with read_errors(request):
        if not is_stream:
            pieces.append((await models.generate_content(model=request.model, **rest)).text or "")
            return
        reason = None
        async for chunk in await models.generate_content_stream(model=request.model, **rest):
            pieces.append(chunk.text or "")
            reason = chunk.candidates[0].finish_reason or reason
        if reason != genai_types.FinishReason.STOP:
            raise Mismatch(f"finish reason {reason}")


SDKS: dict[str, Callable[[Clients, Request, str, bool, list[str]], Awaitable[None]]] = {
    "openai": ask_openai, "anthropic": ask_anthropic, "google-genai": ask_genai,
}  # fmt: skip
