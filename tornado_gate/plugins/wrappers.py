"""The scopes of wrappers, and the replacement of a required wrapper that cannot work.

A wrapper is called for the requests in its scope only (``models``, ``operations`` and ``keys`` under ``plugins:`` in conf). A
required wrapper that cannot work is replaced by a `ClosedWrapper`. It refuses these requests at the hooks where the wrapper would
have seen them. Every path of a request calls these hooks, so no path passes without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final

from tornado_gate.config.globs import globs_overlap, matches_any, matches_model
from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import PluginUnavailable
from tornado_gate.hookspecs import format_impl, provider_impl
from tornado_gate.types import NO_TARGET, Call
from tornado_gate.types.value import Value

CONF_KEY: Final = "conf:"
"""The prefix of the ID of a key of conf; the key's name follows."""
_STORED_IDS: Final = ("key_*", "team_*")
"""The IDs of keys and teams that are made by commands, the console and /admin/v1."""
CLOSED_HOOKS = {
    "format": ["forward_request", "open_session", "translate_request"],
    "provider": ["call_upstream", "open_socket", "translate_request"],
}
"""The hooks of a `ClosedWrapper`, by side: the hooks at which a request begins."""
_REQUEST_HOOK, _RESPONSE_HOOK = "translate_request", "translate_response"


class Scope(Value, frozen=True):
    """The requests that a wrapper covers. `list_names` returns all names by which conf reaches a model: see `ModelNames`."""

    options: PluginOptions = PluginOptions()
    list_names: Callable[[str], Iterable[str]] = lambda model: (model,)

    @property
    def is_everything(self) -> bool:
        return not (self.options.models or self.options.operations or self.options.keys)

    def covers(self, call: Call | None) -> bool:
        """Return whether the wrapper is called for this call. A hook that has no call is always covered."""
        return call is None or (self.may_cover(call) and self._covers_key(call))

    def may_cover(self, call: Call) -> bool:
        """Return whether the wrapper is called for this call, or for the same call of another key."""
        options = self.options
        if options.operations and call.operation not in options.operations:
            return False
        return self._covers_model(call)

    def covers_request(self, call: Call, operations: Iterable[str]) -> bool:
        """Return whether the wrapper covers a request that one of `operations` will serve. An unknown model is covered."""
        permitted = self.options.operations
        if permitted and not any(operation in permitted for operation in operations):
            return False
        return (not call.model or self._covers_model(call)) and self._covers_key(call)

    def _covers_model(self, call: Call) -> bool:
        globs = self.options.models
        if not globs:
            return True
        if any(matches_model(globs, name) for name in self.list_names(call.model)):
            return True
        target = call.target
        return target is not NO_TARGET and any(
            matches_model(globs, name) for name in (target.model, target.upstream_model)
        )

    def _covers_key(self, call: Call) -> bool:
        """Return whether the ID of the key or of its team matches, or the name of a key of conf.

        Names of other keys do not count: their owners choose them. A caller without a key is covered. So is a caller with only a
        key's ID, as in tasks of older versions.
        """
        globs, caller = self.options.keys, call.caller
        if not globs or not caller.name:
            return True
        names = (caller.id, caller.team, caller.id.removeprefix(CONF_KEY))
        return any(name and matches_any(globs, name) for name in names)


def find_unknown_keys(globs: Iterable[str], names: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Return the globs of a scope's keys, with their numbers, that match no ID and no name in `names`.

    `names` are the names of keys and teams in conf.
    """
    known_names = [*names, *(CONF_KEY + name for name in names)]
    for number, glob in enumerate(globs):
        is_known = any(matches_any((glob,), name) for name in known_names)
        if not is_known and not any(globs_overlap(glob, ids) for ids in _STORED_IDS):
            yield number, glob


class ClosedWrapper:
    """A wrapper that refuses every request at the hooks `CLOSED_HOOKS`.

    It replaces a required wrapper that cannot work because of `error`.
    """

    def __init__(self, name: str, error: str) -> None:
        self._name = name
        self._error = error

    def _refuse(self) -> Generator[None, Any, Any]:
        raise PluginUnavailable(self._name, self._error)
        yield  # this makes it a generator function, as a wrapper must be

    @format_impl(wrapper=True, tryfirst=True)
    @provider_impl(wrapper=True, tryfirst=True)
    def translate_request(self) -> Generator[None, Any, Any]:
        return (yield from self._refuse())

    @format_impl(wrapper=True, tryfirst=True)
    def forward_request(self) -> Generator[None, Any, Any]:
        return (yield from self._refuse())

    @format_impl(wrapper=True, tryfirst=True)
    def open_session(self) -> Generator[None, Any, Any]:
        return (yield from self._refuse())

    @provider_impl(wrapper=True, tryfirst=True)
    def call_upstream(self) -> Generator[None, Any, Any]:
        return (yield from self._refuse())

    @provider_impl(wrapper=True, tryfirst=True)
    def open_socket(self) -> Generator[None, Any, Any]:
        return (yield from self._refuse())


class _LimitedWrapper:
    """The hooks of a wrapper on one side, each called for the wrapper's scope only. They are attributes of the instance."""


def limit_to_scope(implementation: object, project: str, spec: type, scope: Scope) -> object:
    """Return a plugin object whose hooks call a wrapper's hooks for its scope only, and pass all other calls.

    Hooks without a call, such as `routes`, are always called.
    """
    if scope.is_everything:
        return implementation
    limited = _LimitedWrapper()
    mark = f"{project}_impl"
    for name in dir(implementation):
        hook = getattr(implementation, name)
        options = getattr(hook, mark, None)
        if options is None:
            continue
        specified = getattr(spec, options["specname"] or name)
        if "call" in inspect.signature(specified).parameters:
            hook = _limit(hook, specified, scope)
            setattr(hook, mark, options)
        setattr(limited, name, hook)
    return limited


def _limit(hook: Callable[..., Any], specified: Callable[..., Any], scope: Scope) -> Callable[..., Any]:
    """Return a wrapper hook with all arguments of the specification, which calls `hook` with its declared arguments."""
    names = list(inspect.signature(specified).parameters)[1:]  # without self
    indexes = [names.index(name) for name in inspect.signature(hook).parameters if name in names]

    def limited(*arguments: Any) -> Generator[None, Any, Any]:
        if not scope.covers(arguments[names.index("call")]):
            return (yield)
        return (yield from hook(*(arguments[index] for index in indexes)))

    limited.__wrapped__ = specified  # type: ignore[attr-defined]  # pluggy reads the names of the arguments there
    return limited


def sees_verbatim_requests(hooks: dict[str, list[str]]) -> bool:
    """Return whether a wrapper with these hooks sees the same data on the verbatim lane as on the common lane.

    On the verbatim lane, bodies pass `forward_request` and `forward_response` of the format instead of the two translations.
    """
    translations = {*hooks.get("format", ()), *hooks.get("provider", ())}
    of_format = hooks.get("format", ())
    return (_REQUEST_HOOK not in translations or "forward_request" in of_format) and (
        _RESPONSE_HOOK not in translations or "forward_response" in of_format
    )


def sees_sessions(hooks: dict[str, list[str]]) -> bool:
    """Return whether a wrapper with these hooks can see the messages of a realtime session."""
    return "guard" in hooks or "open_session" in hooks.get("format", ()) or "open_socket" in hooks.get("provider", ())


def sees_provider_requests(hooks: dict[str, list[str]]) -> bool:
    """Return whether a wrapper with these hooks sees requests that no format has translated.

    Examples are requests of one model to another. A guard has its own rule for them: see
    `guards.decisions.Guards.select_for_inner_call`.
    """
    return "guard" in hooks or bool({"translate_request", "call_upstream"} & set(hooks.get("provider", ())))
