"""Conf and hooks of the plugin."""

from __future__ import annotations

import pytest

import tornado_gate_cascade as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError, InvalidField, PluginError, UnsupportedOperation
from tornado_gate.testing import call_to, chat
from tornado_gate.types import RealtimeRequest, UpstreamRequest, replace
from tornado_gate_cascade.voice_model import CascadeModels


def configured(**settings: object):
    return plugin.configure(ProviderEntry(name="voice", settings=settings))


def test_an_entry_names_the_models():
    capabilities = configured(chat="a", transcription="b", speech="c", voice="onyx")
    assert capabilities.operations == {"realtime"}
    assert capabilities.settings == CascadeModels(chat="a", transcription="b", speech="c", voice="onyx")
    assert configured(chat="a").settings == CascadeModels(chat="a")


@pytest.mark.parametrize(
    ("settings", "path"),
    [({}, ("chat",)), ({"chat": 1}, ("chat",)), ({"chat": "a", "speach": "b"}, ("speach",))],
)
def test_conf_that_is_wrong_says_where(settings: dict[str, object], path: tuple[str, ...]):
    with pytest.raises(ConfigError) as caught:
        configured(**settings)
    assert caught.value.faults[0][0] == path


def test_sessions_are_served_and_nothing_else():
    call = call_to(operation="realtime")
    request = RealtimeRequest(model="m", extra={"intent": "x"})
    assert plugin.translate_request(call, request).context is request
    assert call.losses == ["intent"]
    with pytest.raises(UnsupportedOperation):
        plugin.translate_request(call, chat())


class NoInner:
    def ask(self, model, operation, request):
        raise AssertionError("nobody was to be asked")


@pytest.mark.gen_test
async def test_a_socket_is_a_session_that_is_closed_with_its_call():
    call = call_to(operation="realtime", inner=NoInner())
    call = replace(call, target=replace(call.target, settings=CascadeModels(chat="a", speech="b", voice="onyx")))
    outgoing = UpstreamRequest(context=RealtimeRequest(model="m", session={"instructions": "Be kind."}))
    socket = await plugin.open_socket(call, outgoing)
    text = await socket.receive()
    assert '"onyx"' in text
    assert '"Be kind."' in text
    assert socket.dialect == "current"
    await call.closing.aclose()
    assert socket.close_code == 1000
    assert await socket.receive() is None


@pytest.mark.gen_test
async def test_a_socket_is_refused_before_it_opens():
    call = call_to(operation="realtime", inner=NoInner())
    call = replace(call, target=replace(call.target, settings=CascadeModels(chat="a")))
    fixed = RealtimeRequest(model="m", session={"output_modalities": ["audio"]})
    with pytest.raises(InvalidField):
        await plugin.open_socket(call, UpstreamRequest(context=fixed))
    with pytest.raises(PluginError):
        await plugin.open_socket(replace(call, inner=None), UpstreamRequest(context=fixed))
