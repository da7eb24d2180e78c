"""The calls of a plugin's hooks: `Lane`, the base of `lanes.py`.

An exception of a plugin in a hook is caught here. It is logged with the plugin's name and becomes a PluginError.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from typing import Any, Self

import pluggy

from tornado_gate.errors import ConfigError, ContractError, GateError, PluginError, PluginUnavailable
from tornado_gate.hookspecs import (
    PROVIDER_PROJECT,
    Capabilities,
    ProviderEntry,
    provider_impl,
)
from tornado_gate.http import upstream, websocket
from tornado_gate.plugins.host import SIDES, Plugin, PluginHost, make_manager, release_manager
from tornado_gate.plugins.watchdog import EventLoopBlocked
from tornado_gate.plugins.wrappers import (
    limit_to_scope,
)
from tornado_gate.types import (
    Call,
    Socket,
    UpstreamRequest,
    UpstreamResponse,
)
from tornado_gate.types.field_checks import find_wrong_field


def make_direct_call(caller: pluggy.HookCaller) -> Callable[..., Any]:
    """Return a function that calls a hook without pluggy if it has no wrapper: a request makes about seven hook calls."""
    implementations = caller.get_hookimpls()
    if not implementations or any(
        implementation.wrapper or implementation.hookwrapper for implementation in implementations
    ):
        return caller
    # pluggy calls the last one first
    *others, only = (_adapt_to_keyword_arguments(implementation, caller) for implementation in implementations)
    if not others:
        return only

    def first(**arguments: Any) -> Any:
        result = only(**arguments)
        for other in reversed(others):
            if result is not None:
                break
            result = other(**arguments)
        return result

    return first


def _adapt_to_keyword_arguments(implementation: pluggy.HookImpl, caller: pluggy.HookCaller) -> Callable[..., Any]:
    """Return a function that takes all arguments of a hook by name; the implementation may take fewer."""
    function, names = implementation.function, implementation.argnames
    parameters = inspect.signature(function).parameters.values()
    by_name = not any(parameter.kind is inspect.Parameter.POSITIONAL_ONLY for parameter in parameters)
    if by_name and caller.spec is not None and set(names) == set(caller.spec.argnames):
        return function
    return lambda **arguments: function(*[arguments[name] for name in names])


class _DefaultProviderHooks:
    """Default implementations of hooks that a provider plugin does not implement."""

    @provider_impl(trylast=True)
    def call_upstream(self, call: Call, outgoing: UpstreamRequest) -> Awaitable[UpstreamResponse]:
        return upstream.call_upstream(call, outgoing)

    @provider_impl(trylast=True)
    def open_socket(self, call: Call, outgoing: UpstreamRequest) -> Awaitable[Socket]:
        return websocket.open_socket(call, outgoing)

    @provider_impl(trylast=True)
    def configure(self, entry: ProviderEntry) -> Capabilities:
        if entry.settings:
            raise ConfigError([((str(name),), "unknown key; this plugin has no settings") for name in entry.settings])
        return Capabilities()


class Lane:
    """The hooks of one plugin, with the core's defaults and all wrappers, but no other plugin.

    A plugin may raise an exception other than GateError, or return a value that the specification does not allow. Then every
    method raises PluginError, and logs the plugin's name.
    """

    checked: frozenset[str] = frozenset({"translate_request", "translate_response", "forward_response"})
    """The hooks whose result is checked field by field. The contents of a request's fields are not checked: it may have many
    messages.
    """

    def __init__(self, host: PluginHost, plugin: Plugin, project: str, wrappers: Iterable[Plugin]) -> None:
        self.host = host
        self.plugin = plugin
        self.name = plugin.name
        self._project = project
        self._narrowed: dict[tuple[str, ...], Self] = {}
        self._surround(list(wrappers))

    def narrow(self, call: Call) -> Self:
        """Return the lane of requests like `call`, of any key, whose target is known.

        It calls no wrapper whose scope has no such request. The hooks must get this target or none.
        """
        wrappers = [wrapper for wrapper in self._wrappers if wrapper.scope.may_cover(call)]
        if len(wrappers) == len(self._wrappers):
            return self
        names = tuple(wrapper.name for wrapper in wrappers)
        lane = self._narrowed.get(names)
        if lane is None:
            lane = self._narrowed[names] = copy(self)
            lane._surround(wrappers)
        return lane

    def _surround(self, wrappers: list[Plugin]) -> None:
        """Make the hooks, with `wrappers` around those of the plugin."""
        project, plugin = self._project, self.plugin
        side, spec = SIDES[project]
        self._wrappers = wrappers
        self.required = [wrapper for wrapper in wrappers if wrapper.required]
        self._wrapped = {wrapper.name: wrapper.hooks.get(side, []) for wrapper in wrappers}
        self.is_wrapped = any(self._wrapped.values())
        others = [
            (wrapper.name, limit_to_scope(wrapper.implementation, project, spec, wrapper.scope))
            for wrapper in wrappers
            if side in wrapper.hooks
        ]
        defaults = [("tornado_gate", _DefaultProviderHooks())] if project == PROVIDER_PROJECT else []
        manager = make_manager(project, spec, [*defaults, (plugin.name, plugin.implementation), *others])
        self.hooks = {
            hook: make_direct_call(getattr(manager.hook, hook)) for hook in vars(spec) if not hook.startswith("_")
        }
        release_manager(manager)

    def call(self, hook: str, kind: type | tuple[type, ...], **arguments: Any) -> Any:
        """Call a hook other than `translate_request`, and check that its result is of `kind`."""
        try:
            result = self.hooks[hook](**arguments)
        except (GateError, ConfigError, asyncio.CancelledError):
            raise
        except (Exception, EventLoopBlocked) as error:
            raise self.record_exception(error, hook) from error
        if not isinstance(result, kind):
            raise self._make_kind_error(hook, result)
        if hook in self.checked and (wrong := find_wrong_field(result)):  # type: ignore[arg-type]  # such hooks return a Struct
            raise self._make_value_error(hook, wrong)
        return result

    async def invoke_async(self, hook: str, kind: type | tuple[type, ...], **arguments: Any) -> Any:
        """Call a hook that may be a coroutine function; return its checked result."""
        result = self.invoke(hook, kind, **arguments)
        return (await result) if inspect.iscoroutine(result) else result

    def invoke(self, hook: str, kind: type | tuple[type, ...], **arguments: Any) -> Any:
        """Call a hook that may be a coroutine function; return its checked result (the usual case) or an awaitable of it."""
        try:
            result = self.hooks[hook](**arguments)
        except (GateError, ConfigError, asyncio.CancelledError):
            raise
        except (Exception, EventLoopBlocked) as error:
            raise self.blame(error, hook, arguments) from error
        if not isinstance(result, kind) or (kind is object and inspect.isawaitable(result)):
            return self._await_result(hook, kind, result, arguments)
        if hook in self.checked:
            self._check_fields(hook, result)
        return result

    async def _await_result(
        self, hook: str, kind: type | tuple[type, ...], result: Any, arguments: dict[str, Any]
    ) -> Any:
        try:
            result = (await result) if inspect.isawaitable(result) else result
        except (GateError, ConfigError, asyncio.CancelledError):
            raise
        except (Exception, EventLoopBlocked) as error:
            raise self.blame(error, hook, arguments) from error
        if not isinstance(result, kind):
            raise self._make_kind_error(hook, result)
        if hook in self.checked:
            self._check_fields(hook, result)
        return result

    def blame(self, error: BaseException, hook: str, arguments: dict[str, Any]) -> GateError:
        """Record an exception of a hook that was called with `arguments`. Return the error of the plugin that is at fault."""
        return self.record_exception(error, hook)

    def as_plugin_error(self, error: BaseException) -> BaseException:
        """Map an exception of a plugin's iterator: to PluginError if it is the plugin's fault, else unchanged."""
        if isinstance(error, (GateError, asyncio.CancelledError)):
            return error
        return (
            self.record_exception(error, "its response") if isinstance(error, (Exception, EventLoopBlocked)) else error
        )

    def _make_kind_error(self, hook: str, result: Any) -> PluginError:
        return self.contract_error(
            f"{hook} returned {type(result).__name__}, which the hook specification does not allow"
        )

    def _check_fields(self, hook: str, result: Any) -> None:
        wrong = find_wrong_field(result, inside=hook != "translate_request")
        if wrong:
            raise self._make_value_error(hook, wrong)

    def _make_value_error(self, hook: str, wrong: str) -> PluginError:
        return self.contract_error(f"{hook} returned a wrong value: {wrong}")

    def record_exception(self, error: BaseException, where: str) -> GateError:
        """Log an exception of the plugin, or of a wrapper around it, and return the PluginError for it."""
        if isinstance(error, GateError):
            return error
        culprit = self.name
        if isinstance(error, EventLoopBlocked):
            culprit = error.plugin
        else:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                culprit = self.host.find_owner(frame) or culprit
        detail = f"{where}: {error}" if isinstance(error, ContractError) else f"{where} raised {type(error).__name__}"
        self.host.record_failure(culprit, detail, error)
        return self._make_error(culprit, detail)

    def list_wrappers(self, hook: str) -> list[str]:
        """Return the wrappers around a hook of the plugin."""
        return [name for name, hooks in self._wrapped.items() if hook in hooks]

    def _make_error(self, culprit: str, detail: str) -> PluginError:
        """Return the error for a failure of the plugin or of a wrapper: PluginUnavailable for a required one."""
        is_required = any(wrapper.name == culprit for wrapper in self.required)
        return PluginUnavailable(culprit, detail) if is_required else PluginError(culprit, detail)

    def refuse_unseen(
        self, call: Call, sees: Callable[[dict[str, list[str]]], bool], what: str, seen: Call | None = None
    ) -> None:
        """Raise PluginUnavailable if a required wrapper covers `call` but has no hook that sees it (`sees` gets its hooks).

        `seen` is the call with which the format's hooks have already seen the request.
        """
        for wrapper in self.required:
            if not sees(wrapper.hooks) and wrapper.scope.covers(call) and not (seen and wrapper.scope.covers(seen)):
                raise PluginUnavailable(wrapper.name, f"it cannot see {what}")

    def contract_error(self, detail: str) -> PluginError:
        """Log a violation of the hook specification and return the PluginError for it."""
        self.host.record_failure(self.name, detail)
        return PluginError(self.name, detail)
