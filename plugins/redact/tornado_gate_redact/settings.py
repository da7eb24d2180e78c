"""The settings of the plugin's entry in conf."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from marshmallow import Schema, ValidationError, fields, validate, validates, validates_schema

from tornado_gate.codec.fields import Boolean, String
from tornado_gate.config import load_settings
from tornado_gate.types.value import Value, field
from tornado_gate_redact.detectors import DEFAULT_KINDS, DETECTORS, Detector
from tornado_gate_redact.patterns import compile_pattern
from tornado_gate_redact.phones import find_unknown_regions, make_phone_detector

MARK: Final = "***"
REVERSIBLE_MARK: Final = "[{kind}_{number}]"
MARK_CHARACTERS: Final = 40
MAX_REGIONS: Final = 10
_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class RedactSettingsSchema(Schema):
    """The keys of the entry."""

    kinds = fields.List(String(validate=validate.OneOf(tuple(DETECTORS))))
    patterns = fields.Dict(
        keys=String(validate=validate.Regexp(_NAME.pattern + r"\Z", error="must be lower-case letters, digits and _")),
        values=String(),
    )
    mark = String(validate=validate.Length(max=MARK_CHARACTERS))
    sides = fields.List(String(validate=validate.OneOf(("request", "response"))), validate=validate.Length(min=1))
    restore = Boolean()
    regions = fields.List(String(), validate=validate.Length(max=MAX_REGIONS))

    @validates("patterns")
    def check_patterns(self, patterns: Mapping[str, str], **_: Any) -> None:
        """Check that each pattern is an RE2 pattern with a bounded length, whose name is not the name of a detector."""
        faults: dict[str, list[str]] = {}
        for name, pattern in patterns.items():
            try:
                if name in DETECTORS:
                    raise ValueError("is the name of a detector; choose another one")
                compile_pattern(pattern)
            except ValueError as error:
                faults[name] = [str(error)]
        if faults:
            raise ValidationError(faults)

    @validates("regions")
    def check_regions(self, regions: list[str], **_: Any) -> None:
        """Check that each region is known. An empty list imports nothing."""
        unknown = find_unknown_regions(regions) if regions else []
        if unknown:
            message = "is no region with telephone numbers: use its code in ISO 3166, two capitals such as US or DE"
            raise ValidationError({index: [message] for index in unknown})

    @validates("mark")
    def check_mark(self, mark: str, **_: Any) -> None:
        unknown = {name for name in _PLACEHOLDER.findall(mark) if name not in ("kind", "number")}
        if unknown:
            raise ValidationError("may contain {kind} and {number} only")
        if not mark.isprintable() or '"' in mark or "\\" in mark:
            raise ValidationError(
                'must not contain ", \\ or control characters, which would break JSON in arguments of tools'
            )

    @validates_schema
    def check_restore(self, data: Mapping[str, Any], **_: Any) -> None:
        mark = data.get("mark")
        if data.get("restore") and mark is not None and not ("{number}" in mark and len(mark) > len("{number}") + 1):
            raise ValidationError(
                "must contain {number} and other characters, as [{kind}_{number}], with 'restore'", "mark"
            )
        if data.get("restore") and "request" not in data.get("sides", ("request",)):
            raise ValidationError("needs 'request' among 'sides': what is not replaced cannot be restored", "restore")
        if data.get("regions") and "phone" not in data.get("kinds", DEFAULT_KINDS):
            raise ValidationError("needs 'phone' among 'kinds': only that kind has regions", "regions")
        if data.get("kinds") == [] and not data.get("patterns"):
            raise ValidationError("is empty, and there are no 'patterns': nothing would be replaced", "kinds")


class RedactSettings(Value, frozen=True, kw_only=True):
    """The settings. `detectors` find the replaced values, by kind. `mark` replaces a value.

    In `mark`, ``{kind}`` is the kind, in capitals, and ``{number}`` the number of the value in the request. `restore`:
    marks in the response become the caller's values again.
    """

    detectors: Mapping[str, Detector] = field(default_factory=lambda: {name: DETECTORS[name] for name in DEFAULT_KINDS})
    mark: str = MARK
    sides: frozenset[str] = frozenset({"request", "response"})
    restore: bool = False


def read_settings(settings: Mapping[str, Any]) -> RedactSettings:
    """Check the settings of conf. Raises ConfigError."""
    loaded = load_settings(RedactSettingsSchema, settings)
    detectors = {name: DETECTORS[name] for name in loaded.get("kinds", DEFAULT_KINDS)}
    if loaded.get("regions"):
        detectors["phone"] = make_phone_detector(dict.fromkeys(loaded["regions"]))
    detectors |= {name: compile_pattern(pattern) for name, pattern in loaded.get("patterns", {}).items()}
    restore = loaded.get("restore", False)
    return RedactSettings(
        detectors=detectors,
        mark=loaded.get("mark", REVERSIBLE_MARK if restore else MARK),
        sides=frozenset(loaded.get("sides", ("request", "response"))),
        restore=restore,
    )
