"""Functions that split an embedding request into batches for an upstream and join their results. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tornado_gate.errors import UpstreamError
from tornado_gate.types import EmbeddingRequest, EmbeddingResult, Usage, Vector
from tornado_gate.types.value import replace

MAX_PARALLEL_REQUESTS = 4
"""The number of batches of one request that run at the same time."""

_COUNTERS = tuple(name for name in Usage.__struct_fields__ if name != "extra")


def split(request: EmbeddingRequest, most: int) -> list[EmbeddingRequest]:
    """Return the request as batches of at most `most` inputs, in order. There is at least one batch."""
    inputs = request.inputs
    return [replace(request, inputs=inputs[start : start + most]) for start in range(0, len(inputs) or 1, most)]


def join(requests: Sequence[EmbeddingRequest], results: Sequence[EmbeddingResult]) -> EmbeddingResult:
    """Return the results in the order of their requests, with the sum of their usage.

    If a result lacks usage, return no usage, so that the usage of the whole request is estimated.
    Raises UpstreamError when a result has not one vector for each input.
    """
    vectors: list[Vector] = []
    for request, result in zip(requests, results, strict=True):
        if len(result.vectors) != len(request.inputs):
            raise UpstreamError(
                f"The upstream returned {len(result.vectors)} vectors for {len(request.inputs)} inputs. Try again."
            )
        vectors += result.vectors
    reports = [result.usage for result in results]
    is_complete = all(usage is not None and usage.input_tokens != 0 for usage in reports)
    return replace(results[0], vectors=tuple(vectors), usage=sum_usage(reports) if is_complete else None)


def sum_usage(reports: Sequence[Usage | None]) -> Usage | None:
    """Return the sum of each counter, or None when no report has usage.

    A value in `extra` that is not a number is taken from the first report.
    """
    known = [usage for usage in reports if usage is not None]
    if len(known) < 2:
        return known[0] if known else None
    sums: dict[str, Any] = {}
    for counter in _COUNTERS:
        counted = [getattr(usage, counter) for usage in known if getattr(usage, counter) is not None]
        sums[counter] = sum(counted) if counted else None
    extra: dict[str, Any] = {}
    for usage in known:
        for name, value in usage.extra.items():
            extra[name] = (
                extra[name] + value if _is_number(value) and _is_number(extra.get(name)) else extra.get(name, value)
            )
    return replace(known[0], extra=extra, **sums)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
