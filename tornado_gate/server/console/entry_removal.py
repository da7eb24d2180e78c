"""Remove a provider entry with the models that need it, or a model; and undo a change of the configuration."""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import unquote

from tornado_gate.config.entry_edits import EntryRemoval, Step, TextRestoration
from tornado_gate.config.stored import StoredConf
from tornado_gate.errors import NotFound, RequestError
from tornado_gate.server.configuration_changes import change_configuration, run_check
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import check_next
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.plugin_pages import split_diff
from tornado_gate.server.control.conf_versions import find_previous_text
from tornado_gate.server.process import conf_history
from tornado_gate.server.process.conf_change import review_change
from tornado_gate.server.services import Services

PROVIDERS = "/console/providers"
UNDO = "/console/configuration/undo"


class RemoveEntryPage(AdminHandler):
    """Reviews the removal of an entry of conf; with the digest of the reviewed file, applies it."""

    action: ClassVar[str]
    """The name of the change in the audit log."""
    back: ClassVar[str]
    """The address of the list of such entries."""

    @property
    def back_text(self) -> str:
        """Return the name of that list."""
        raise NotImplementedError

    def make_steps(self, name: str) -> list[Step]:
        """Return the changes of the file. Raises NotFound."""
        raise NotImplementedError

    async def get(self, name: str) -> None:
        name = unquote(name)
        await self._review(name, self.make_steps(name))

    async def post(self, name: str) -> None:
        name = unquote(name)
        steps = self.make_steps(name)
        try:
            await change_configuration(
                self.services, self.make_actor(), self.action, name, steps, version=self.get_field("digest")
            )
        except RequestError as error:
            await self._review(name, steps, error=error.message, status=error.status)
            return
        self.flash(translate("{name} is removed from the configuration.").format(name=name))
        self.redirect(self.back, status=303)

    async def _review(self, name: str, steps: list[Step], *, error: str = "", status: int = 200) -> None:
        review: Any = None
        try:
            review = await run_check(review_change, self.snapshot.config, steps)
        except RequestError as refused:
            error = error or refused.message
        self.render_page(
            "entry_remove.html",
            title=translate("Remove {name}").format(name=name),
            status=status,
            review=review,
            lines=split_diff(review.diff) if review else [],
            error=error,
            back=self.back,
            back_text=self.back_text,
        )


class RemoveProviderPage(RemoveEntryPage):
    """`/console/providers/entry/NAME/remove`. Models whose only provider it is are removed with it."""

    action = "provider.delete"
    back = PROVIDERS

    @property
    def back_text(self) -> str:
        return translate("All providers")

    def make_steps(self, name: str) -> list[Step]:
        config = self.snapshot.config
        if name not in config.providers and ("providers", name) not in dict(config.inactive):
            raise NotFound(
                translate("conf has no provider entry '{name}'.").format(name=name[:100]), code="unknown_provider"
            )
        own = [
            entry.name
            for entry in config.models.values()
            if entry.targets and all(target.provider == name for target in entry.targets)
        ]
        steps: list[Step] = [EntryRemoval(section="models", name=model) for model in own]
        steps.append(EntryRemoval(section="providers", name=name))
        return steps


class UndoPage(AdminHandler):
    """`/console/configuration/undo/VERSION`: restores the text of the file before the change that made this version."""

    async def post(self, version: str) -> None:
        text = await self.run_database(find_former_text, self.services, version)
        if text is None:
            raise NotFound(translate("This change cannot be undone here any more. Change the file."), code="not_found")
        await change_configuration(
            self.services,
            self.make_actor(),
            "configuration.undo",
            version[:12],
            [TextRestoration(text)],
            version=version,
        )
        self.flash(translate("The change of the configuration is undone."))
        self.redirect(check_next(self.get_field("next") or PROVIDERS), status=303)


def find_former_text(services: Services, version: str) -> str | None:
    """Return the text before the change that made a version; None if it is not kept any more. Synchronous."""
    config = services.gate.snapshot.config
    if isinstance(config.path, StoredConf):
        return find_previous_text(services.database, version)
    return conf_history.find_text(config.server.data_dir, version)
