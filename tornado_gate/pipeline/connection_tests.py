"""The test of a provider entry's connection: the vendor's model list, or a short chat if the plugin cannot list models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from tornado_gate.config.model import LimitsConfig
from tornado_gate.errors import GateError, UpstreamKeyRefused
from tornado_gate.pipeline.attempts import call_provider
from tornado_gate.pipeline.calls import make_target_call
from tornado_gate.pipeline.provider_pools import ProviderPools
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.types import Call, Caller, ChatRequest, Message, Text
from tornado_gate.types.call import LazyExitStack
from tornado_gate.types.value import Value, replace
from tornado_gate.types.vendors import ListedModel

TEST_SECONDS: Final = 20.0
TEST_ID: Final = "connection-test"
MAX_TOKENS: Final = 16
"""The smallest number of output tokens that every vendor accepts: the Responses API refuses less."""


class ConnectionTest(Value, frozen=True, kw_only=True):
    """The result. `message` is for the administrator, without secrets. `models` are empty if the vendor lists none.

    `is_untested`: nothing was sent, so it is unknown whether the connection works.
    """

    ok: bool
    message: str
    models: tuple[ListedModel, ...] = ()
    is_untested: bool = False


async def check_connection(snapshot: Snapshot, name: str, model: str = "", key: str = "") -> ConnectionTest:
    """Test a provider entry of a snapshot, which may be one that no process serves yet. Never raises a GateError.

    `model` is an upstream model for a short chat, used if the plugin cannot list models; the default is one of conf.
    `key` is the fingerprint of one of several keys; the default is the first.
    """
    provider = snapshot.targets.providers[name]
    pools = ProviderPools(snapshot.config.limits if snapshot.config else LimitsConfig())
    try:
        async with asyncio.timeout(TEST_SECONDS):
            return await _ask(snapshot, provider, pools, model, key)
    except TimeoutError:
        return ConnectionTest(ok=False, message=f"The vendor sent no answer within {TEST_SECONDS:.0f} s.")
    except UpstreamKeyRefused as error:
        message = f"The vendor refused the API key (status {error.upstream_status}). Check the key and its account."
        return ConnectionTest(ok=False, message=message)
    except GateError as error:
        return ConnectionTest(ok=False, message=error.operator_message)
    finally:
        await pools.close()


async def _ask(
    snapshot: Snapshot, provider: ConfiguredProvider, pools: ProviderPools, model: str, key: str
) -> ConnectionTest:
    lane, name = provider.usable_lane, provider.entry.name
    model = model or _find_chat_model(snapshot, provider)
    target = snapshot.targets.make_task_target(model or TEST_ID, name, model or TEST_ID, key)
    target = replace(target, timeouts=replace(target.timeouts, first_event=TEST_SECONDS, total=TEST_SECONDS))
    async with LazyExitStack() as closing:
        caller = Caller(id="", account="")
        call = make_target_call(
            TEST_ID, "chat", target.upstream_model, caller, target, pools.get_pool(provider), closing
        )
        models = await lane.list_models(call)
        if models is not None:
            count = f"{len(models)} model{'' if len(models) == 1 else 's'}"
            return ConnectionTest(ok=True, message=f"The vendor answered and lists {count}.", models=tuple(models))
        if not model:
            message = (
                f"Not tested: the plugin '{lane.name}' cannot list the vendor's models, and no chat model of this provider "
                "is in conf. Add a model and send a request to it."
            )
            return ConnectionTest(ok=False, message=message, is_untested=True)
        await _send_chat(call, provider)
        return ConnectionTest(ok=True, message=f"The vendor answered a short chat with the model '{model}'.")


async def _send_chat(call: Call, provider: ConfiguredProvider) -> None:
    request = ChatRequest(
        model=call.target.upstream_model,
        messages=(Message(role="user", parts=(Text(text="ping"),)),),
        max_tokens=MAX_TOKENS,
        stream=True,
    )
    deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=True)
    async for _ in await call_provider(call, provider.usable_lane, request, deadlines):
        return


def _find_chat_model(snapshot: Snapshot, provider: ConfiguredProvider) -> str:
    """Return an upstream model of conf that chats at a provider entry; "" without one."""
    names = (
        target.upstream_model
        for entry in snapshot.config.models.values()
        if "*" not in entry.name
        for target, other in snapshot.targets.list_targets(entry.name)
        if other is provider
    )
    return _find_first(names, provider)


def _find_first(names: Iterable[str], provider: ConfiguredProvider) -> str:
    return next((name for name in names if "chat" in provider.capabilities.get_operations(name)), "")
