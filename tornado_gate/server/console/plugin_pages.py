"""Plugins with their state and failures. A change of conf switches a plugin on or off; the visitor reviews the change
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.people import Actor
from tornado_gate.errors import InvalidField, NotFound, Unavailable
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.pipeline.support_matrix import WORDS, SupportRow, list_support
from tornado_gate.server.admin.views import describe_plugins
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.process.conf_change import ChangeRefused, Review, apply_plugin, review_plugin
from tornado_gate.server.services import Services

PLUGINS = "/console/plugins"
CHECK_SECONDS = 60.0
RELOAD_SECONDS = 5.0
"""The time that a changed file usually takes to be read; the page waits for it, to show the new state."""


class PluginsPage(AdminHandler):
    """`/console/plugins`."""

    async def get(self) -> None:
        plugins = await describe_plugins(self.services)
        path = self.snapshot.config.path
        rows = describe_support(self.snapshot)
        self.render_page(
            "plugins.html", title="Plugins", plugins=plugins, file=str(path) if path else "", rows=rows, support=WORDS
        )


def describe_support(snapshot: Snapshot) -> list[SupportRow]:
    """Return the operations that the provider entries of conf support, by wire format."""
    working = {name: entry.capabilities for name, entry in snapshot.targets.providers.items() if entry.lane is not None}
    return list_support(working, snapshot.formats.values())


class SwitchPage(AdminHandler):
    """`/console/plugins/NAME/switch`: reviews the change; with the digest of the reviewed file, applies it."""

    def get(self, _name: str) -> None:
        self.redirect(PLUGINS)

    async def post(self, name: str) -> None:
        name, on = unquote(name), self._read_switch()
        config = self.snapshot.config
        if name not in self.gate.host.plugins and name not in config.plugins:
            raise NotFound(f"No plugin '{name[:100]}' is installed.")
        digest = self.get_field("digest")
        if not digest:
            self._show_review(await run_check(review_plugin, config, name, on=on))
            return
        try:
            review = await run_check(apply_plugin, config, name, on=on, digest=digest)
        except ChangeRefused as error:
            self._show_review(await run_check(review_plugin, config, name, on=on), error=str(error), status=409)
            return
        await self.run_database(record_switch, self.services, self.make_actor(), review)
        await self.services.configuration.wait_for_change(RELOAD_SECONDS)
        is_applied = self.snapshot.config.plugins.get(name) is on
        rest = "" if is_applied else " The gateway reads the file within seconds; then reload this page."
        self.flash(f"{name} is switched {'on' if on else 'off'} in {review.file}.{rest}")
        self.redirect(PLUGINS, status=303)

    def _read_switch(self) -> bool:
        switch = self.get_field("on")
        if switch not in ("true", "false"):
            raise InvalidField("on", "The field 'on' must be true or false.")
        return switch == "true"

    def _show_review(self, review: Review, *, error: str = "", status: int = 200) -> None:
        title = f"Switch {review.plugin} {'on' if review.on else 'off'}"
        self.render_page(
            "plugin_switch.html", title=title, status=status, review=review, error=error, lines=split_diff(review.diff)
        )


async def run_check(check: Callable[..., Review], *arguments: Any, **named: Any) -> Review:
    """Return the result of a check. It runs in a thread because it imports plugins. Raises Unavailable if it hangs."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await asyncio.to_thread(check, *arguments, **named)
    except TimeoutError:
        message = f"The check has no result after {CHECK_SECONDS:.0f} s. Run 'tornado-gate check': a plugin may hang."
        raise Unavailable(message) from None


def split_diff(diff: str) -> list[tuple[str, str]]:
    """Return the lines of a unified diff, each with its kind: ``add``, ``remove``, ``head`` or "" for context."""
    kinds = {"+": "add", "-": "remove", "@": "head"}
    return [(kinds.get(line[:1], "") if index > 1 else "head", line) for index, line in enumerate(diff.split("\n"))]


def record_switch(services: Services, actor: Actor, review: Review) -> None:
    """Add the change to the audit log. Synchronous."""
    detail: dict[str, Any] = {"on": review.on, "file": review.file}
    with services.database.write() as connection:
        record(connection, actor, "plugin.switch", review.plugin, **detail)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (PLUGINS, PluginsPage),
    (rf"{PLUGINS}/([^/]{{1,300}})/switch", SwitchPage),
]
