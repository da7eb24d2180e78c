"""Maps a method and a path to a route, and a model name to its entry in conf; resolves upstream names. No I/O."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
MAX_ARGUMENT_LENGTH = 4096
"""The maximum length of a path parameter, because decoding 60 kB of `%` takes 50 ms, before the key is checked."""
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
        self._exclusive: dict[tuple[str, str], MatchedRoute] = {}
        for entry in served:
            self._add(entry)
        self._reserve_longer_paths()

    def _add(self, served: ServedRoute) -> None:
        route = served.route
        path = route.path
        if "{" not in path:
            methods = self._exact.setdefault(path, {})
        else:
            alike = self._patterns.setdefault(path.partition("{")[0], {})
            _, methods = alike.setdefault(path, (_compile_pattern(path), {}))
        rivals = methods.setdefault(route.method, [])
        if route.claims is None and any(rival.route.claims is None for rival in rivals):
            raise RouteConflict(f"{route.method} {path} is served by {rivals[-1].format} and by {served.format}")
        rivals.append(served)
        rivals.sort(key=lambda rival: rival.route.claims is None)

    def _reserve_longer_paths(self) -> None:
        """Let no path parameter contain the rest of a longer path.

        So `GET /v1/models/x:generate` is a 405, and not a model of that name, and `DELETE /v1/videos/x/content` is no deletion.
        """
        for start, alike in self._patterns.items():
            exact = [path for path in self._exact if path.startswith(start)]
            for path, (_, methods) in alike.items():
                longer = [other for other in alike if other.startswith((f"{path}:", f"{path}/"))]
                alike[path] = _compile_pattern(path, reserved=longer + exact), methods

    def find_exclusive(self, method: str, path: str) -> MatchedRoute | None:
        """Return the route for a method and an exact path if only one format serves it, so that headers need not be read; else
        None.
        """
        matched = self._exclusive.get((method, path))
        if matched is None:
            rivals = self._exact.get(path, _NO_ROUTES).get(method, ())
            if len(rivals) == 1 and rivals[0].route.claims is None:
                matched = self._exclusive[method, path] = MatchedRoute(rivals[0], _NO_ARGUMENTS)
        return matched

    def find_messages(self, path: str) -> MatchedRoute | None:
        """Return the route at an exact path whose requests may be WebSocket messages; None without one."""
        plain = path[:-1] if path.endswith("/") else path
        for rivals in self._exact.get(plain, _NO_ROUTES).values():
            for rival in rivals:
                if rival.route.messages is not None:
                    return MatchedRoute(rival, _NO_ARGUMENTS)
        return None

    def match(self, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> MatchedRoute:
        """Return the route of a request. A slash at the end of `path` is allowed. Raises NotFound or MethodNotAllowed.

        A path that serves GET serves HEAD too (RFC 9110 9.1). `path` is the raw path of the request line. It is compared before
        percent-decoding, so an encoded path cannot match a route that it does not look like.
        """
        plain = path[:-1] if path.endswith("/") and path != "/" else path
        served_as = "GET" if method == "HEAD" else method
        for rival in self._exact.get(plain, _NO_ROUTES).get(served_as, ()):
            if rival.route.claims is None or rival.route.claims(headers, query):
                return MatchedRoute(rival, _NO_ARGUMENTS)
        matches = self._find_methods(plain)
        for methods, arguments in matches:
            for rival in methods.get(served_as, ()):
                if rival.route.claims is None or rival.route.claims(headers, query):
                    return MatchedRoute(rival, arguments)
        allowed = {name for methods, _ in matches for name in methods}
        if served_as not in allowed:
            if self._has_unknown_verb(method, plain):
                raise _unknown_route_error(plain)
            if "GET" in allowed:
                allowed.add("HEAD")
            raise MethodNotAllowed(method, list(allowed))
        raise NotFound(f"No route serves {method} for this path with these headers and query parameters.")

    def _find_methods(self, path: str) -> list[tuple[dict[str, list[ServedRoute]], dict[str, str]]]:
        """Return the methods that serve a path, with its arguments: an exact path before patterns. Raises NotFound.

        Several patterns may match: `/v1/models/models/x:generate` also has the name `models/x`.
        """
        methods = self._exact.get(path)
        matches: list[tuple[dict[str, list[ServedRoute]], dict[str, str]]] = [] if methods is None else [(methods, {})]
        for match, candidates in self._match_patterns(path):
            try:
                arguments = {k: unquote(v, errors="strict") for k, v in match.groupdict().items()}
            except UnicodeDecodeError:
                continue
            matches.append((candidates, arguments))
        if not matches:
            raise _unknown_route_error(path)
        return matches

    def _match_patterns(self, path: str) -> Iterator[tuple[re.Match[str], dict[str, list[ServedRoute]]]]:
        """Yield the matches of a path by patterns, with the methods of each pattern."""
        alike = [patterns.values() for start, patterns in self._patterns.items() if path.startswith(start)]
        for pattern, candidates in chain.from_iterable(alike):
            match = pattern.fullmatch(path)
            if match is not None:
                yield match, candidates

    def _has_unknown_verb(self, method: str, path: str) -> bool:
        """Return whether a path ends with an unknown verb (`/v1/models/x:noSuchVerb`) where routes of this method have verbs."""
        if ":" not in path.rpartition("/")[2]:
            return False
        alike = chain.from_iterable(
            patterns.items() for start, patterns in self._patterns.items() if path.startswith(start)
        )
        return any(method in methods and "}:" in pattern for pattern, (_, methods) in alike)

    def find_format(self, path: str) -> str:
        """Return the format that serves a path with any method, or "". Errors of this path use the format's error body.

        Arguments are not decoded here: 60 kB of `%` take 50 ms, and the search for the route has decoded them already.
        """
        plain = path[:-1] if path.endswith("/") else path
        methods = self._exact.get(plain) or next((methods for _, methods in self._match_patterns(plain)), None)
        return next(iter(methods.values()))[-1].format if methods else ""

    def __iter__(self) -> Iterable[ServedRoute]:
        patterns = chain.from_iterable(alike.values() for alike in self._patterns.values())
        tables = [*self._exact.values(), *(methods for _, methods in patterns)]
        return (served for methods in tables for rivals in methods.values() for served in rivals)


def _unknown_route_error(path: str) -> NotFound:
    shown = path if len(path) <= 200 else path[:200] + "…"
    message = f"The route '{shown}' does not exist. Check the path and the base URL of the client."
    return NotFound(message, code="unknown_route")


def _compile_pattern(path: str, reserved: Sequence[str] = ()) -> re.Pattern[str]:
    """Return the pattern of a path such as ``/v1/models/{model}``.

    The last parameter may contain slashes, like model names. What the paths `reserved` match does not match.
    """
    others = "|".join(_write_pattern(other, "(?:{1})") for other in reserved)
    return re.compile((rf"(?!(?:{others})\Z)" if others else "") + _write_pattern(path, "(?P<{0}>{1})"))


def _write_pattern(path: str, group: str) -> str:
    """Return the regular expression of a path. `group` is the form of a group, whose fields are its name and its content."""
    names = _SEGMENT.findall(path)
    pieces = _SEGMENT.split(path)
    text = re.escape(pieces[0])
    for name, literal in zip(pieces[1::2], pieces[2::2], strict=True):
        characters = "." if name == names[-1] else "[^/]"
        text += group.format(name, f"{characters}{{1,{MAX_ARGUMENT_LENGTH}}}") + re.escape(literal)
    return text


def _find_rest(prefix: str, suffix: str, name: str) -> str:
    """Return the part of a name between a folded prefix and suffix; "" if the name has another beginning or end."""
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
"""The maximum length of a name that a wildcard matches, because matched names are cached."""
MAX_MATCHED_NAMES = 4096


class ModelTable:
    """Finds the entry of a model name: the exact entry, else an entry with another spelling, else the longest matching wildcard.

    Names are compared in their canonical form. If entries differ only in spelling, the exact entry is used, else the first.
    """

    def __init__(self, entries: Mapping[str, ModelEntry]) -> None:
        self._exact = {name: FoundModel(entry, "") for name, entry in entries.items() if "*" not in name}
        self._other_spellings: dict[str, FoundModel] = {}
        for name, exact in self._exact.items():
            self._other_spellings.setdefault(canonicalize_name(name), exact)
        self._wildcards: list[tuple[str, str, ModelEntry]] = []
        for name in sorted(entries, key=len, reverse=True):
            prefix, star, suffix = name.partition("*")
            if star:
                self._wildcards.append((fold_name(prefix), fold_name(suffix), entries[name]))
        self._matches: FIFOCache[str, FoundModel | None] = FIFOCache(MAX_MATCHED_NAMES)

    def find_model(self, name: str) -> FoundModel | None:
        """Return the entry of a model name; None without one."""
        exact = self._exact.get(name)
        if exact is not None or len(name) > MAX_NAME_LENGTH:
            return exact
        if name not in self._matches:
            self._matches[name] = self._match(name)
        return self._matches[name]

    def _match(self, name: str) -> FoundModel | None:
        """Return the entry of a name that is not in conf as written; None for a name that an upstream may read differently."""
        if not is_plain_name(name):
            return None
        match = self._other_spellings.get(canonicalize_name(name))
        if match is not None:
            return match
        texts = (name, strip_resource_path(unicodedata.normalize("NFKC", name)))
        for prefix, suffix, entry in self._wildcards:
            for text in texts:
                rest = _find_rest(prefix, suffix, text)
                if rest:
                    return FoundModel(entry, rest)
        return None

    def list_entries(self) -> Iterable[ModelEntry]:
        """Return the entries without a wildcard, which model lists contain."""
        return (exact.entry for exact in self._exact.values())


def resolve_upstream_model(name: str, rest: str, target: ModelTarget) -> str:
    """Return the upstream's name of a model at a target.

    `name` is the name of its entry, `rest` the text that the entry's ``*`` matches, or "".
    """
    if target.model is None:
        return rest or name
    return target.model.replace("*", rest) if rest else target.model
