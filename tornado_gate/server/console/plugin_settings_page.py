"""The settings of a plugin as YAML. The change of the file is shown, checked, applied and recorded."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

from tornado_gate.config.entry_edits import PluginChange
from tornado_gate.config.yaml_edit import EditRefused
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import GateError, NotFound, RequestError, Unavailable
from tornado_gate.server.configuration_changes import change_configuration, forget_keys, run_check
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.plugin_pages import PLUGINS, split_diff
from tornado_gate.server.plugin_settings import (
    WrittenEntry,
    parse_settings,
    read_entry,
    render_settings,
    store_setting_secrets,
)
from tornado_gate.server.process.conf_change import Review, review_change


class PluginSettingsPage(AdminHandler):
    """`/console/plugins/NAME/settings`. The button pressed is the field ``action``: ``show`` or ``save``."""

    async def get(self, name: str) -> None:
        name = self._check_name(name)
        entry = await self._read_entry(name)
        form = Form({"settings": render_settings(entry.members), "version": entry.version}, focus="settings")
        self._show(name, form)

    async def post(self, name: str) -> None:
        name = self._check_name(name)
        form = Form(
            {"settings": self.get_field("settings").replace("\r\n", "\n"), "version": self.get_field("version")}
        )
        try:
            members = parse_settings(form.values["settings"], (await self._read_entry(name)).members)
            if self.get_field("action") == "save":
                await self._save(name, form, members)
            else:
                review = await self._review(name, members)
                form.values["version"] = review.digest
                self._show(name, form, review=review)
        except RequestError as error:
            await self._show_refusal(name, form, error)

    def _check_name(self, name: str) -> str:
        name = unquote(name)
        if name not in self.gate.host.plugins and name not in self.snapshot.config.plugins:
            raise NotFound(translate("No plugin '{name}' is installed.").format(name=name[:100]))
        return name

    async def _read_entry(self, name: str) -> WrittenEntry:
        try:
            return await asyncio.to_thread(read_entry, self.snapshot.config, name)
        except (OSError, UnicodeDecodeError, EditRefused, DatabaseError) as error:
            raise Unavailable(translate("The configuration file cannot be read. Run 'tornado-gate check'.")) from error

    async def _review(self, name: str, members: dict[str, Any]) -> Review:
        step = PluginChange(plugin=name, members=members, new_secrets=frozenset())
        review: Review = await run_check(review_change, self.snapshot.config, [step])
        return review

    async def _save(self, name: str, form: Form, members: dict[str, Any]) -> None:
        config = self.snapshot.config
        members, references = await self.run_database(store_setting_secrets, config, name, members)
        try:
            done = await change_configuration(
                self.services,
                self.make_actor(),
                "plugin.change",
                name,
                [PluginChange(plugin=name, members=members, new_secrets=frozenset(references))],
                version=form.values["version"],
            )
        except GateError:
            await self.run_database(forget_keys, config, references)
            raise
        if done.rejected:
            form.error = translate("The file is changed, but this process does not use it: {fault}").format(
                fault=done.rejected[0]
            )
            self._show(name, form)
            return
        self.flash(translate("The settings of {name} are changed.").format(name=name))
        self.redirect(PLUGINS, status=303)

    async def _show_refusal(self, name: str, form: Form, error: RequestError) -> None:
        if error.param == "settings":
            form.errors["settings"] = error.message
        else:
            form.error = error.message.partition("\n")[0].removesuffix(" Lines of the change:")
        form.values["version"] = (await self._read_entry(name)).version
        self._show(name, form, status=error.status)

    def _show(self, name: str, form: Form, *, review: Review | None = None, status: int = 200) -> None:
        self.render_page(
            "plugin_settings.html",
            title=translate("Settings of {name}").format(name=name),
            status=status,
            form=form,
            review=review,
            lines=split_diff(review.diff) if review else [],
        )


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(rf"{PLUGINS}/([^/]{{1,300}})/settings", PluginSettingsPage)]
