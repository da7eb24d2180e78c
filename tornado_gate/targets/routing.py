"""Maps a method and a path to a route, and a model name to its entry in conf; resolves upstream names. No I/O."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from urllib.parse import unquote

from cachetools import FIFOCache

from tornado_gate.config.model import ModelEntry, ModelTarget
from tornado_gate.errors import MethodNotAllowed, NotFound
from tornado_gate.types import Route
from tornado_gate.types.model_names import canonicalize_name, fold_name, is_plain_name, strip_resource_path
from tornado_gate.types.value import Value

_SEGMENT = re.compile(r"\{(\w+)\}")
_NO_ROUTES: Mapping[str, list[ServedRoute]] = {}
_NO_ARGUMENTS: Mapping[str, str] = MappingProxyType({})


class ServedRoute(Value, frozen=True):
    """A route and the format that serves it."""

    format: str
    route: Route


class MatchedRoute(Value, frozen=True):
    served: ServedRoute
    arguments: Mapping[str, str]


class RouteConflict(Exception):
    """Two formats serve the same method and path."""


class RouteTable:
    """The routes of all formats. An exact path costs one look-up, independent of the number of routes."""

    def __init__(self, served: Iterable[ServedRoute]) -> None:
        self._exact: dict[str, dict[str, list[ServedRoute]]] = {}
        self._patterns: dict[str, dict[str, tuple[re.Pattern[str], dict[str, list[ServedRoute]]]]] = {}
        self._own: dict[tuple[str, str], MatchedRoute] = {}
        for one in served:
            self._add(one)

    def _add(self, one: ServedRoute) -> None:
        path = one.route.path
        if "{" not in path:
            methods = self._exact.setdefault(path, {})
        else:
            alike = self._patterns.setdefault(path.partition("{")[0], {})
            _, methods = alike.setdefault(path, (_compile_pattern(path), {}))
        rivals = methods.setdefault(one.route.method, [])
        if one.route.claims is None and any(rival.route.claims is None for rival in rivals):
            raise RouteConflict(f"{one.route.method} {path} is served by {rivals[-1].format} and by {one.format}")
        rivals.append(one)
        rivals.sort(key=lambda rival: rival.route.claims is None)

    def find_exclusive(self, method: str, path: str) -> MatchedRoute | None:
        """The route for this method and exact path if it is the only one, so that headers need not be read; else None."""
        found = self._own.get((method, path))
        if found is None:
            rivals = self._exact.get(path, _NO_ROUTES).get(method, ())
            if len(rivals) == 1 and rivals[0].route.claims is None:
                found = self._own[method, path] = MatchedRoute(rivals[0], _NO_ARGUMENTS)
        return found

    def find_messages(self, path: str) -> MatchedRoute | None:
        """The route at this exact path whose requests may be WebSocket messages; None without one."""
        plain = path[:-1] if path.endswith("/") else path
        for rivals in self._exact.get(plain, _NO_ROUTES).values():
            for rival in rivals:
                if rival.route.messages is not None:
                    return MatchedRoute(rival, _NO_ARGUMENTS)
        return None

    def match(self, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> MatchedRoute:
        """The route of a request; a slash at the end of `path` is allowed. Raises NotFound or MethodNotAllowed.

        HEAD is served wherever GET is (RFC 9110 9.1). `path` is the raw path of the request line. It is compared before
        percent-decoding, so that an encoded path cannot reach another route than the one it looks like.
        """
        plain = path[:-1] if path.endswith("/") and path != "/" else path
        served_as = "GET" if method == "HEAD" else method
        for rival in self._exact.get(plain, _NO_ROUTES).get(served_as, ()):
            if rival.route.claims is None or rival.route.claims(headers, query):
                return MatchedRoute(rival, _NO_ARGUMENTS)
        found = self._find(plain)
        for methods, arguments in found:
            for rival in methods.get(served_as, ()):
                if rival.route.claims is None or rival.route.claims(headers, query):
                    return MatchedRoute(rival, arguments)
        allowed = {name for methods, _ in found for name in methods}
        if served_as not in allowed:
            if self._has_unknown_verb(method, plain):
                raise _unknown_route_error(plain)
            if "GET" in allowed:
                allowed.add("HEAD")
            raise MethodNotAllowed(method, list(allowed))
        raise NotFound(f"No route serves {method} for this path with these headers and query parameters.")

    def _find(self, path: str) -> list[tuple[dict[str, list[ServedRoute]], dict[str, str]]]:
        """The methods that serve a path, an exact path before patterns: `/v1/models/x:generate` names a model only for GET."""
        methods = self._exact.get(path)
        found: list[tuple[dict[str, list[ServedRoute]], dict[str, str]]] = [] if methods is None else [(methods, {})]
        alike = [patterns.values() for start, patterns in self._patterns.items() if path.startswith(start)]
        for pattern, candidates in chain.from_iterable(alike):
            match = pattern.fullmatch(path)
            if match is not None:
                try:
                    arguments = {k: unquote(v, errors="strict") for k, v in match.groupdict().items()}
                except UnicodeDecodeError:
                    continue
                found.append((candidates, arguments))
        if not found:
            raise _unknown_route_error(path)
        return found

    def _has_unknown_verb(self, method: str, path: str) -> bool:
        """Whether a path ends with a verb, as `/v1/models/x:noSuchVerb`, where routes with this method end with other verbs."""
        if ":" not in path.rpartition("/")[2]:
            return False
        alike = chain.from_iterable(
            patterns.items() for start, patterns in self._patterns.items() if path.startswith(start)
        )
        return any(method in methods and "}:" in pattern for pattern, (_, methods) in alike)

    def find_format(self, path: str) -> str:
        """The format that serves a path with any method, or "": errors of this path use its error body."""
        plain = path[:-1] if path.endswith("/") else path
        try:
            methods, _ = self._find(plain)[0]
        except NotFound:
            return ""
        return next(iter(methods.values()))[-1].format

    def __iter__(self) -> Iterable[ServedRoute]:
        patterns = chain.from_iterable(alike.values() for alike in self._patterns.values())
        tables = [*self._exact.values(), *(methods for _, methods in patterns)]
        return (served for methods in tables for rivals in methods.values() for served in rivals)


def _unknown_route_error(path: str) -> NotFound:
    shown = path if len(path) <= 200 else path[:200] + "…"
    message = f"The route '{shown}' does not exist. Check the path and the base URL of the client."
    return NotFound(message, code="unknown_route")


def _compile_pattern(path: str) -> re.Pattern[str]:
    """``/v1/models/{model}`` as a pattern. Only the last parameter may contain slashes, as names of models do."""
    names = _SEGMENT.findall(path)
    pieces = _SEGMENT.split(path)
    text = re.escape(pieces[0])
    for name, literal in zip(pieces[1::2], pieces[2::2], strict=True):
        text += f"(?P<{name}>{'.+' if name == names[-1] else '[^/]+'})" + re.escape(literal)
    return re.compile(text)


def _find_rest(prefix: str, suffix: str, name: str) -> str:
    """The part of a name between a prefix and a suffix, which are folded; "" if it has another beginning or end."""
    folded = name.casefold()
    if len(folded) != len(name):
        name = folded
    if not folded.startswith(prefix) or not folded.endswith(suffix):
        return ""
    return name[len(prefix) : len(name) - len(suffix)]


class FoundModel(Value, frozen=True):
    """The model entry for a name; `rest` is the text that the entry's `*` matched, "" for an exact entry."""

    entry: ModelEntry
    rest: str


MAX_NAME_LENGTH = 256
"""The maximum length of a model's name. A wildcard matches no longer one, because found names are cached."""
MAX_FOUND_NAMES = 4096


class ModelTable:
    """Finds the entry of a model name: the exact one, else that of another spelling, else the longest wildcard that matches.

    Names are compared in their canonical form; of entries that differ in spelling alone, the exact one is found, else the first.
    """

    def __init__(self, entries: Mapping[str, ModelEntry]) -> None:
        self._exact = {name: FoundModel(entry, "") for name, entry in entries.items() if "*" not in name}
        self._other_spellings: dict[str, FoundModel] = {}
        for name, found in self._exact.items():
            self._other_spellings.setdefault(canonicalize_name(name), found)
        self._wildcards: list[tuple[str, str, ModelEntry]] = []
        for name in sorted(entries, key=len, reverse=True):
            prefix, star, suffix = name.partition("*")
            if star:
                self._wildcards.append((fold_name(prefix), fold_name(suffix), entries[name]))
        self._found: FIFOCache[str, FoundModel | None] = FIFOCache(MAX_FOUND_NAMES)

    def find(self, name: str) -> FoundModel | None:
        found = self._exact.get(name)
        if found is not None or len(name) > MAX_NAME_LENGTH:
            return found
        if name not in self._found:
            self._found[name] = self._search(name)
        return self._found[name]

    def _search(self, name: str) -> FoundModel | None:
        """The entry of a name that conf does not contain as it is written. What an upstream may read otherwise has none."""
        if not is_plain_name(name):
            return None
        found = self._other_spellings.get(canonicalize_name(name))
        if found is not None:
            return found
        texts = (name, strip_resource_path(unicodedata.normalize("NFKC", name)))
        for prefix, suffix, entry in self._wildcards:
            for text in texts:
                rest = _find_rest(prefix, suffix, text)
                if rest:
                    return FoundModel(entry, rest)
        return None

    def list_entries(self) -> Iterable[ModelEntry]:
        """The entries without a wildcard, which model lists contain."""
        return (found.entry for found in self._exact.values())


def resolve_upstream_model(name: str, rest: str, target: ModelTarget) -> str:
    """The upstream's name of a model at a target: `name` is that of its entry, `rest` what the entry's ``*`` matches, or ""."""
    if target.model is None:
        return rest or name
    return target.model.replace("*", rest) if rest else target.model
