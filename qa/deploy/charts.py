"""The Helm chart: linted and rendered by Helm's own library, its objects checked by Kubernetes' schemas.

Run by the Python of the tools: it needs helm-python-sdk, kubernetes-validate and PyYAML only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import helm_python  # type: ignore[import-not-found]
import kubernetes_validate  # type: ignore[import-not-found]
import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "tornado-gate"
VARIANTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"existingSecret": "gateway", "service": {"type": "LoadBalancer"}, "nodeSelector": {"disk": "ssd"}},
    {
        "autoscaling": {"enabled": True},
        "secrets": {"DATABASE_URL": "postgresql://a", "LIMITS_STORE": "valkey://b"},
        "podAnnotations": {"a": "b"},
        "imagePullSecrets": [{"name": "registry"}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    },
)
KINDS = {"ConfigMap", "Deployment", "PodDisruptionBudget", "Service"}


def render(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects of the chart."""
    with helm_python.Chart.load(str(CHART)) as chart:
        for name, text in chart.render(dict(values), name="demo", namespace="prod").items():
            if name.endswith(".yaml"):
                yield from filter(None, yaml.safe_load_all(text))


def main() -> None:
    findings = helm_python.lint(str(CHART))
    serious = [message for message in findings["messages"] if message["severity"] > 1]
    assert not serious, serious
    assert not findings["errors"], findings
    for values in VARIANTS:
        objects = {each["kind"]: each for each in render(values)}
        assert set(objects) >= KINDS, set(objects)
        for each in objects.values():
            kubernetes_validate.validate(each, "1.30", strict=True)
        pod = objects["Deployment"]["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] == 100
    assert {"HorizontalPodAutoscaler", "Secret"} <= set(objects)
    sys.stdout.write(objects["ConfigMap"]["data"]["gate.yaml"])


if __name__ == "__main__":
    main()
