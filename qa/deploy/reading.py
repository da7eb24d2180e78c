"""The parts of the files in `deploy/` that checks run: instructions of the Dockerfile, environments of the compose file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class Instruction(NamedTuple):
    """An instruction of a Dockerfile, with its continued lines in one text."""

    word: str
    text: str


def read_dockerfile() -> list[list[Instruction]]:
    """Return the instructions of each stage, from its FROM on."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", "")
    stages: list[list[Instruction]] = []
    for line in joined.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            stages.append([])
        if word and stages:
            stages[-1].append(Instruction(word, rest.strip()))
    return stages


def get_exec_form(stage: list[Instruction], word: str) -> list[str]:
    """Return the words of ENTRYPOINT or CMD, or of the CMD inside of HEALTHCHECK."""
    text = next(each.text for each in stage if each.word == word)
    return list(json.loads(text[text.index("[") :]))


def read_example_environment() -> dict[str, str]:
    """Return the variables of example.env."""
    lines = (DEPLOY / "compose" / "example.env").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def read_compose() -> dict[str, Any]:
    """Return compose.yaml with the values of example.env."""
    text = (DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(substitute(text, read_example_environment()))
    return loaded


def read_gateway_environment(name: str) -> dict[str, str]:
    """Return the environment of a gateway of the compose file."""
    environment = read_compose()["services"][name]["environment"]
    return {variable: str(value or "") for variable, value in environment.items()}


def substitute(text: str, environment: Mapping[str, str]) -> str:
    """Replace ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}`` as compose does. Raises KeyError for a missing value."""

    def find(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        value = environment.get(name, "")
        if not value and kind == "-":
            return str(rest)
        if not value and kind != "-" and name not in environment:
            raise KeyError(name)
        return value

    return _VARIABLE.sub(find, text)


def make_chart_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that the chart writes for `values`: those of the file, and the keys that it adds."""
    drain = values["drain"]
    added = {"host": "0.0.0.0", "port": 8080, "metrics_host": "0.0.0.0", "metrics_port": 9090}
    server = {
        **values["config"]["server"],
        **added,
        "drain_delay": drain["delaySeconds"],
        "drain_seconds": drain["seconds"],
    }
    return {**values["config"], "server": server}
