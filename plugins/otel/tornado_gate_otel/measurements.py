"""Metrics of requests to upstreams, by OpenTelemetry's semantic conventions for generative AI.

Source: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/client-inference.md, gen-ai-token-metrics.md and
client-embeddings.md (main, read 2026-11-28). Chats count as inference. Operations without a convention of their own have
``gen_ai.client.operation.duration``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from opentelemetry.metrics import Histogram, Meter

from tornado_gate.types import Usage

SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS: Final = tuple(4**power for power in range(14))
"""The boundaries of the buckets that the conventions name."""
MAX_MODELS: Final = 500
MAX_ERRORS: Final = 100
"""Further models and errors are ``other`` and ``_OTHER``: callers and upstreams choose their names."""
_NAMES: Final = (
    *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "server.address", "server.port"),
    "tornado_gate.provider",
)
_USED: Final = {
    "input_tokens": ("input_tokens", "audio_input_tokens", "image_tokens"),
    "output_tokens": ("output_tokens", "audio_output_tokens", "image_output_tokens"),
    "cache_read.input_tokens": ("cache_read_tokens", "cached_audio_tokens", "cached_image_tokens"),
    "cache_write.input_tokens": ("cache_write_tokens", "", ""),
    "reasoning.output_tokens": ("reasoning_tokens", "", ""),
}
"""Counters of tokens, with the members of a usage that have the sum, and its parts of sound and of pictures."""
_DURATIONS: Final = {"chat": "gen_ai.client.inference.duration", "embeddings": "gen_ai.client.embeddings.duration"}
_OTHER_DURATION: Final = "gen_ai.client.operation.duration"


class Measurements:
    """The instruments of a process. All methods are quick, and may be called from the event loop."""

    def __init__(self, meter: Meter) -> None:
        self._models: set[tuple[str, str]] = set()
        self._errors: set[str] = set()
        self._durations = {
            name: self._make_histogram(meter, name, "s", "Time of a request to a model.")
            for name in (*_DURATIONS.values(), _OTHER_DURATION)
        }
        self._first_chunk = self._make_histogram(
            meter, "gen_ai.client.inference.time_to_first_chunk", "s", "Time to the first chunk of a stream."
        )
        self._used = {
            name: meter.create_counter(f"gen_ai.client.inference.usage.{name}", "{token}", "Tokens that were used.")
            for name in _USED
        }
        self._sizes = {
            (operation, name): self._make_histogram(
                meter, f"gen_ai.client.{operation}.operation.{name}", "{token}", "Tokens of one request."
            )
            for operation, name in (
                ("inference", "input_tokens"),
                ("inference", "output_tokens"),
                ("embeddings", "input_tokens"),
            )
        }

    def _make_histogram(self, meter: Meter, name: str, unit: str, text: str) -> Histogram:
        bounds = SECONDS if unit == "s" else TOKENS
        return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)

    def record_duration(self, target: Mapping[str, Any], seconds: float, error: str) -> None:
        """Record the time of a request to an upstream. `target` are the attributes of its span."""
        attributes = self._choose_attributes(target)
        if error:
            attributes["error.type"] = self._bind_error(error)
        name = _DURATIONS.get(target["gen_ai.operation.name"], _OTHER_DURATION)
        self._durations[name].record(seconds, attributes)

    def record_first_chunk(self, target: Mapping[str, Any], seconds: float) -> None:
        """Record the time to the first chunk of the stream of a chat."""
        if target["gen_ai.operation.name"] == "chat":
            self._first_chunk.record(seconds, self._choose_attributes(target))

    def record_usage(self, target: Mapping[str, Any], usage: Usage | None) -> None:
        """Record the tokens that an upstream has reported. None: it has not reported any."""
        attributes, operation = self._choose_attributes(target), target["gen_ai.operation.name"]
        if operation == "embeddings":
            self._record_sizes("embeddings", usage, attributes)
        elif operation == "chat":
            self._record_sizes("inference", usage, attributes)
            for name, counter in self._used.items():
                for modality, count in _list_counts(name, usage):
                    counter.add(count, {**attributes, "gen_ai.token.modality": modality})

    def _record_sizes(self, operation: str, usage: Usage | None, attributes: Mapping[str, Any]) -> None:
        for (measured, name), histogram in self._sizes.items():
            if measured == operation:
                histogram.record(max(0, getattr(usage, name, 0) or 0), attributes)

    def _choose_attributes(self, target: Mapping[str, Any]) -> dict[str, Any]:
        attributes = {name: target[name] for name in _NAMES if name in target}
        model = attributes["tornado_gate.provider"], attributes["gen_ai.request.model"]
        if model not in self._models:
            if len(self._models) < MAX_MODELS:
                self._models.add(model)
            else:
                attributes["gen_ai.request.model"] = "other"
        return attributes

    def _bind_error(self, error: str) -> str:
        if error not in self._errors:
            if len(self._errors) >= MAX_ERRORS:
                return "_OTHER"
            self._errors.add(error)
        return error


def _list_counts(name: str, usage: Usage | None) -> Iterator[tuple[str, int]]:
    """Yield (modality, tokens) of a counter. Tokens of the input and the output are always counted, even as 0."""
    whole, audio, image = (getattr(usage, member, None) if member else None for member in _USED[name])
    if whole is None:
        if name in ("input_tokens", "output_tokens"):
            yield "unknown", 0
        return
    parts = {"audio": audio or 0, "image": image or 0}
    yield from ((modality, count) for modality, count in parts.items() if count > 0)
    rest = whole - sum(parts.values())
    if rest > 0 or not any(parts.values()):
        yield ("unknown" if audio is None and image is None else "text"), max(0, rest)
