"""A provider's own error for a refusal of its upstream (`translate_upstream_error`), or else that of the core's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest

from tests.support.upstream import JSON, Upstream, answer
from tornado_gate import errors, provider_impl, types
from tornado_gate.http import upstream_errors
from tornado_gate.http.upstream import ERROR_BODY_BYTES, Pool
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.testing import KEY, call_to, target_of

Explain = Callable[[types.Call, int, Mapping[str, str], bytes], Any]
STATUSES = {"E_BUSY": 429, "E_INPUT": 400}


class Acme:
    """Its vendor answers everything with status 500, and says what is wrong by a code."""

    def __init__(self, explain: Explain) -> None:
        self.explain = explain

    @provider_impl
    def translate_request(self, call: types.Call) -> types.UpstreamRequest:
        return types.UpstreamRequest(url=f"{call.target.base_url}/chat", json={})

    @provider_impl
    def translate_response(self) -> Any: ...

    @provider_impl
    def translate_upstream_error(self, call: types.Call, status: int, headers: Mapping[str, str], body: bytes) -> Any:
        return self.explain(call, status, headers, body)


def explain_by_code(call: types.Call, status: int, headers: Mapping[str, str], body: bytes) -> errors.GateError | None:
    said = orjson.loads(body)
    if said["code"] == "E_ACCOUNT":
        return upstream_errors.key_refused(call.target.provider)
    if said["code"] not in STATUSES:
        return None
    text = upstream_errors.ErrorText(said["text"], code=said["code"])
    return upstream_errors.error_for_status(STATUSES[said["code"]], call.target.provider, text, headers)


async def refuse(
    upstream: Upstream, explain: Explain, body: Any, **headers: str
) -> tuple[errors.GateError, PluginHost]:
    """The error of one request that the upstream refuses with status 500."""
    upstream.script(answer(orjson.dumps(body), status=500, headers={**JSON, **headers}))
    host, pool = PluginHost(), Pool(types.Timeouts(connect=2))
    lane = ProviderLane(host, host.add("acme", Acme(explain)), [])
    async with AsyncExitStack() as closing:
        closing.push_async_callback(pool.close)
        target = target_of(lane, base_url=upstream.url)
        call = call_to(lane, target=target, pool=pool, closing=closing)
        with pytest.raises(errors.GateError) as caught:
            await lane.call_upstream(call, await lane.translate_request(call, types.ModelsRequest()))
    return caught.value, host


@pytest.mark.gen_test
async def test_the_vendors_code_decides_and_the_table_for_other_codes(upstream: Upstream) -> None:
    error, _ = await refuse(upstream, explain_by_code, {"code": "E_BUSY", "text": "wait"}, **{"retry-after": "7"})
    assert (error.status, error.code, error.retry_after) == (429, "upstream_rate_limited", 7.0)
    error, _ = await refuse(upstream, explain_by_code, {"code": "E_INPUT", "text": f"no; your key is {KEY}"})
    assert (error.status, error.code, error.retryable) == (400, "E_INPUT", False)
    assert (KEY in error.message, "no; your key is" in error.message) == (False, True)
    error, _ = await refuse(upstream, explain_by_code, {"code": "E_ACCOUNT", "text": "unpaid"})
    assert (error.status, error.code, "unpaid" in error.message) == (502, "upstream_authentication", False)
    error, host = await refuse(upstream, explain_by_code, {"code": "E_NEW", "text": "?"})
    assert (error.status, error.code, host.failures) == (502, "upstream_error", {})


@pytest.mark.gen_test
@pytest.mark.parametrize("wrong", [lambda *_: 1 / 0, lambda *_: "a text"], ids=["raises", "returns no error"])
async def test_a_hook_that_fails_is_named_and_the_table_decides(upstream: Upstream, wrong: Explain) -> None:
    error, host = await refuse(upstream, wrong, {"code": "E_BUSY"})
    assert (error.status, error.code, "translate_upstream_error" in host.failures["acme"][1]) == (
        502,
        "upstream_error",
        True,
    )


@pytest.mark.gen_test
async def test_the_body_is_bounded(upstream: Upstream) -> None:
    sizes: list[int] = []
    await refuse(upstream, lambda call, status, headers, body: sizes.append(len(body)), {"x": "y" * 200_000})
    assert sizes == [ERROR_BODY_BYTES]
