"""The imitation's own table of models, read from `models.yaml`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from qa.imitations.openai.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Model:
    """What one model accepts; the defaults are those of a model that does not reason. The facts are described in models.yaml."""

    name: str
    apis: tuple[str, ...] = ("chat", "responses")
    efforts: tuple[str, ...] = ()
    default: str = ""
    sampling: str = "always"
    penalties: bool = True
    stop: bool = True
    chat_tools: str = "always"
    vision: bool = True
    audio: bool = False
    verbosity: tuple[str, ...] = ("medium",)
    custom_tools: bool = False
    parallel: bool = True
    most: int = 16384

    @property
    def reasons(self) -> bool:
        return bool(self.efforts)


@cache
def load_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("models.yaml").read_text(encoding="utf-8"))
    return rows


@cache
def find_model(name: str) -> Model:
    """The model called `name`. Raises Refusal (404) for an unknown one."""
    names = {field.name for field in fields(Model)}
    known, model = False, Model(name=name)
    for row in load_rows():
        patterns = row["match"] if isinstance(row["match"], list) else [row["match"]]
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            facts: dict[str, Any] = {
                fact: tuple(value) if isinstance(value, list) else value for fact, value in row.items()
            }
            known_facts: dict[str, Any] = {fact: value for fact, value in facts.items() if fact in names}
            model = replace(model, **known_facts)
            known = True
    if not known:
        message = f"The model `{name}` does not exist or you do not have access to it."
        raise Refusal(message, None, "model_not_found", status=404)
    return model
