"""The targets that may get a request, by the objects of upstreams that it names."""

from __future__ import annotations

from functools import partial

from tornado_gate.errors import InvalidField
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.types import KeptObject, ObjectReference, Target
from tornado_gate.types.value import Value

Candidate = tuple[Target, ConfiguredProvider]


class ObjectAccess(Value, frozen=True):
    """The upstream objects that one request names: `kept` are recorded for the account, `unknown` are not.

    The format has copies of the recorded objects in `copied`. Every target may get a copy; the entry that keeps the object comes
    first.
    """

    wire_format: str
    kept: tuple[tuple[ObjectReference, KeptObject], ...] = ()
    copied: tuple[KeptObject, ...] = ()
    unknown: tuple[ObjectReference, ...] = ()

    def list_keepers(self) -> list[str]:
        """Return the provider entries that keep objects without a copy."""
        return [kept.provider for _, kept in self.kept]

    def find_key(self) -> str:
        """Return the fingerprint of the key that created an object, if its provider entry has several keys; else ""."""
        records = (*(kept for _, kept in self.kept), *self.copied)
        return next((record.key for record in records if record.key), "")

    def select_targets(self, targets: list[Candidate]) -> list[Candidate]:
        """Return the targets that may get the request.

        Raises the error for an unknown id when no target may get it, and InvalidField when the model has no target at the
        provider entry that keeps an object.
        """
        allowed = [target for target in targets if self._find_unshared(*target) is None]
        if not allowed:
            raise next(reference for target in targets if (reference := self._find_unshared(*target))).not_found()
        for reference, kept in self.kept:
            allowed = [target for target in allowed if target[0].provider == kept.provider]
            if not allowed:
                raise _elsewhere_error(reference, kept)
        for kept in self.copied:
            allowed.sort(key=partial(_is_elsewhere, kept))
        return allowed

    def _find_unshared(self, target: Target, provider: ConfiguredProvider) -> ObjectReference | None:
        """Return the first unknown reference that must not be sent to a target; None without one."""
        for reference in self.unknown:
            if target.shares(reference.kind):
                continue
            if not reference.only_verbatim or self._is_verbatim(provider):
                return reference
        return None

    def _is_verbatim(self, provider: ConfiguredProvider) -> bool:
        return self.wire_format in provider.capabilities.speaks


def _is_elsewhere(kept: KeptObject, candidate: Candidate) -> bool:
    return candidate[0].provider != kept.provider


def _elsewhere_error(reference: ObjectReference, kept: KeptObject) -> InvalidField:
    return InvalidField(
        reference.param,
        f"The {reference.kind} '{reference.id[:100]}' is kept by the upstream of the model '{kept.model}', which this model does "
        f"not use. Use the model '{kept.model}', or send the content instead of the id.",
        code="object_kept_elsewhere",
    )
