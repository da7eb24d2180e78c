"""The files of `deploy/` fit the gateway: `tornado-gate check` accepts their configurations, and what they name exists.

`make check-deploy` runs them with the tools of their makers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from qa.deploy.reading import (
    DEPLOY,
    ROOT,
    get_exec_form,
    make_chart_config,
    read_compose,
    read_dockerfile,
    read_gateway_environment,
)
from tests.support.gateway import run_command
from tornado_gate import config as conf

SECRETS = {
    "DATABASE_URL": "postgresql://gateway@postgres/gateway",
    "LIMITS_STORE": "valkey://valkey:6379",
    "OPENAI_API_KEY": "key-of-the-upstream",
    "ROOT_KEY": "key-of-an-administrator-0123",
}


@pytest.fixture(scope="module")
def chart_values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "helm" / "tornado-gate" / "values.yaml").read_text())
    return loaded


def test_both_gateways_of_the_compose_file_have_a_configuration_without_faults_and_all_its_variables() -> None:
    compose = read_compose()
    file = DEPLOY / "compose" / compose["configs"]["gateway"]["file"]
    names = set(re.findall(r"\$\{(\w+)", file.read_text()))
    for name in ("gateway-a", "gateway-b"):
        environment = read_gateway_environment(name)
        assert names - {"OPENAI_BASE_URL"} == set(environment)
        result = run_command("check", "--conf", str(file), environment=environment)
        assert result.returncode == 0, result.stdout
        assert "warning" not in result.stdout.lower(), result.stdout
        server = conf.load(file, environment).server
        grace = int(compose["services"][name]["stop_grace_period"].removesuffix("s"))
        assert grace >= server.drain_delay + server.drain_seconds + 30


def test_the_files_that_the_compose_file_mounts_exist() -> None:
    compose = read_compose()
    for each in compose["configs"].values():
        assert (DEPLOY / "compose" / each["file"]).is_file()
    for name in ("gateway-a", "gateway-b"):
        build = compose["services"][name]["build"]
        assert (DEPLOY / "compose" / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_the_configuration_of_the_chart_has_no_faults(chart_values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(yaml.safe_dump(make_chart_config(chart_values)))
    result = run_command("check", "--conf", str(file), environment=SECRETS)
    assert result.returncode == 0, result.stdout


def test_the_image_copies_what_exists_and_runs_a_command_of_the_gateway() -> None:
    build, final = read_dockerfile()
    for each in (*build, *final):
        if each.word == "COPY" and "--from" not in each.text:
            assert all((ROOT / source).exists() for source in each.text.split()[:-1]), each
    serve = [*get_exec_form(final, "ENTRYPOINT"), *get_exec_form(final, "CMD")]
    assert serve[:2] == ["tornado-gate", "serve"]
    assert [each.text for each in final if each.word == "USER"] == ["10001:10001"]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for each in build:
        if each.word == "COPY":
            assert {f"!{source}" for source in each.text.split()[:-1]} <= set(ignored), each


def test_the_unit_and_the_chart_give_the_gateway_time_to_drain(chart_values: dict[str, Any]) -> None:
    unit = (DEPLOY / "tornado-gate.service").read_text()
    found = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert found
    defaults = conf.default_config().server
    assert int(found[1]) > defaults.drain_delay + defaults.drain_seconds + 30
    assert (
        "drain.delaySeconds .Values.drain.seconds 30"
        in (DEPLOY / "helm" / "tornado-gate" / "templates" / "deployment.yaml").read_text()
    )


def test_the_scaled_metric_is_one_of_the_gateway() -> None:
    template = (DEPLOY / "helm" / "tornado-gate" / "templates" / "hpa.yaml").read_text()
    found = re.search(r"metric: {name: (\w+)}", template)
    assert found
    assert f"`{found[1]}`" in (ROOT / "docs" / "reference" / "metrics.md").read_text()
