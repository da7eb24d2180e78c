"""Plugins with their state and failures. A change of conf switches a plugin on or off; the visitor reviews the change
first.
"""

from __future__ import annotations

from urllib.parse import unquote

from tornado_gate.errors import InvalidField, NotFound
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.pipeline.support_matrix import WORDS, SupportRow, list_support
from tornado_gate.server.admin.views import describe_plugins
from tornado_gate.server.configuration_changes import record_change, run_check
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.vocabulary import name_word
from tornado_gate.server.process.conf_change import ChangeRefused, Review, apply_plugin, review_plugin

PLUGINS = "/console/plugins"
RELOAD_SECONDS = 5.0
"""The time that a changed file usually takes to be read; the page waits for it, to show the new state."""


class PluginsPage(AdminHandler):
    """`/console/plugins`."""

    async def get(self) -> None:
        plugins = await describe_plugins(self.services)
        path = self.snapshot.config.path
        rows = describe_support(self.snapshot)
        self.render_page(
            "plugins.html",
            title=translate("Plugins"),
            plugins=plugins,
            file=str(path) if path else "",
            rows=rows,
            support=WORDS,
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
            raise NotFound(translate("No plugin '{name}' is installed.").format(name=name[:100]))
        digest = self.get_field("digest")
        if not digest:
            self._show_review(name, await run_check(review_plugin, config, name, on=on), on=on)
            return
        try:
            author = self.make_actor().name
            review = await run_check(apply_plugin, config, name, on=on, digest=digest, author=author)
        except ChangeRefused as error:
            review = await run_check(review_plugin, config, name, on=on)
            self._show_review(name, review, on=on, error=str(error), status=409)
            return
        detail = {"on": on, "file": review.file}
        await self.run_database(record_change, self.services, self.make_actor(), "plugin.switch", name, detail)
        self.services.configuration.request_reload()
        await self.services.configuration.wait_for_change(RELOAD_SECONDS)
        is_applied = self.snapshot.config.plugins.get(name) is on
        rest = "" if is_applied else translate(" The gateway reads the file within seconds; then reload this page.")
        self.flash(
            translate("{name} is switched {off} in {file}.{rest}").format(
                name=name, off=name_word("on" if on else "off"), file=review.file, rest=rest
            )
        )
        self.redirect(PLUGINS, status=303)

    def _read_switch(self) -> bool:
        switch = self.get_field("on")
        if switch not in ("true", "false"):
            raise InvalidField("on", translate("The field 'on' must be true or false."))
        return switch == "true"

    def _show_review(self, plugin: str, review: Review, *, on: bool, error: str = "", status: int = 200) -> None:
        title = translate("Switch {plugin} {off}").format(plugin=plugin, off=name_word("on" if on else "off"))
        lines = split_diff(review.diff)
        self.render_page(
            "plugin_switch.html",
            title=title,
            status=status,
            plugin=plugin,
            on=on,
            review=review,
            error=error,
            lines=lines,
        )


def split_diff(diff: str) -> list[tuple[str, str]]:
    """Return the lines of a unified diff, each with its kind: ``add``, ``remove``, ``head`` or "" for context. [] of ""."""
    kinds = {"+": "add", "-": "remove", "@": "head"}
    lines = diff.split("\n") if diff else []
    return [(kinds.get(line[:1], "") if index > 1 else "head", line) for index, line in enumerate(lines)]


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (PLUGINS, PluginsPage),
    (rf"{PLUGINS}/([^/]{{1,300}})/switch", SwitchPage),
]
