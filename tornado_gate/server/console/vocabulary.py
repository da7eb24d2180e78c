"""Words of the gateway's data in the language of a page: states, kinds, columns, strategies, reasons.

The words belong to packages that know no languages. They are listed here for the catalogues; a test finds those that no
package has any more.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.server.console.languages.catalogues import mark, translate

WORDS: Final = (
    *(mark("active", "word"), mark("expired", "word"), mark("revoked", "word"), mark("disabled", "word")),
    *(mark("on", "word"), mark("off", "word"), mark("failed", "word"), mark("serving", "word"), mark("silent", "word")),
    *(mark("available", "word"), mark("failing", "word"), mark("unavailable", "word"), mark("inactive", "word")),
    *(mark("closed", "word"), mark("open", "word"), mark("probing", "word")),
    *(mark("complete", "word"), mark("aborted", "word"), mark("refused", "word"), mark("member", "word")),
    *(mark("administrator", "word"), mark("key", "word"), mark("user", "word"), mark("team", "word")),
    *(mark("model", "word"), mark("provider", "word"), mark("gateway", "word"), mark("status", "word")),
    *(mark("tag", "word"), mark("end user", "word"), mark("hour", "word"), mark("day", "word")),
    *(mark("format", "word"), mark("guard", "word"), mark("wrapper", "word"), mark("format+provider", "word")),
    *(mark("translated", "word"), mark("forwarded", "word"), mark("translated or forwarded", "word")),
    *(mark("weighted", "word"), mark("latency", "word"), mark("least busy", "word"), mark("cost", "word")),
    *(mark("connect", "word"), mark("first event", "word"), mark("gap", "word"), mark("total", "word")),
    *(mark("session", "word"), mark("invitation", "word"), mark("organisation", "word"), mark("limit", "word")),
    *(mark("alert", "word"), mark("plugin", "word"), mark("configuration", "word"), mark("tape", "word")),
    mark("key of the configuration", "word"),
)
"""Values. Members of an object that have such values are in `_NAMED`."""
COLUMNS: Final = (
    *(mark("input tokens", "word"), mark("cached input tokens", "word"), mark("cache write tokens", "word")),
    *(mark("cache write 1h tokens", "word"), mark("output tokens", "word"), mark("reasoning tokens", "word")),
    *(mark("audio input tokens", "word"), mark("audio output tokens", "word"), mark("image tokens", "word")),
    *(mark("image output tokens", "word"), mark("operation", "word"), mark("upstream model", "word")),
    *(mark("outcome", "word"), mark("attempts", "word"), mark("key name", "word"), mark("account", "word")),
    *(mark("tags", "word"), mark("agent", "word"), mark("cached", "word"), mark("characters", "word")),
    *(mark("estimated", "word"), mark("seconds", "word"), mark("images", "word"), mark("tokens per second", "word")),
    *(mark("email", "word"), mark("role", "word"), mark("before", "word"), mark("by", "word"), mark("name", "word")),
    *(mark("kind", "word"), mark("subject", "word"), mark("bound", "word"), mark("value", "word")),
    *(mark("factor", "word"), mark("until", "word"), mark("expires", "word"), mark("budget", "word")),
    *(mark("limits", "word"), mark("models", "word"), mark("operations", "word"), mark("addresses", "word")),
    *(mark("personal keys", "word"), mark("state", "word"), mark("file", "word"), mark("source", "word")),
    *(mark("requests per minute", "word"), mark("tokens per minute", "word"), mark("concurrent requests", "word")),
    *(mark("US dollars per day", "word"), mark("US dollars per month", "word")),
    *(mark("tokens per day", "word"), mark("tokens per month", "word")),
)
"""Names of the members of objects: columns of the ledger, details of audited actions, limits."""
PHRASES: Final = (
    mark("Another vendor, by the plugin "),
    mark("the first target whose circuit is closed and of which a key is not at rest"),
    mark("those that keep what the request names or has signatures of first"),
    mark("in the order of the conversation (cache affinity by "),
    mark("in a random order by weight"),
    mark("the one with the shortest time to the first event first"),
    mark("the less busy one of two first, by weight"),
    mark("the cheapest known price first"),
    mark("then fallback models"),
    mark("every circuit is open: the target that is due first, one request at a time"),
)
"""Parts of sentences: the title of a vendor, and why a target comes first."""
REFUSALS: Final = (
    mark("This gateway has no identity provider."),
    mark("This sign-in has expired, or was begun in another browser. Begin again."),
    mark("This sign-in has expired. Begin again."),
)
"""Messages of the sign-in with an identity provider. Pages pass them to `translate`."""
TITLES: Final = (mark("Coding agents"),)
"""Titles of snippets that are no names."""
_NAMED: Final = frozenset({"role", "before", "state", "kind", "bound", "outcome", "operation"})


def name_word(word: str) -> str:
    """Return a word of the data in the language of the page; an unknown one with spaces for its underscores."""
    return translate(word.replace("_", " ").replace("usd", "US dollars"), "word")


def name_value(name: str, value: Any) -> str:
    """Return the value of a member as text, a word if the member has words."""
    return name_word(str(value)) if name in _NAMED else str(value)


def translate_phrases(text: str) -> str:
    """Return a text of another package with the known phrases in the language of the page."""
    for phrase in PHRASES:
        text = text.replace(phrase, translate(phrase))
    return text
