"""Check all files of `deploy/`: ``python -m qa.deploy TOOLS``, the virtual environment with the tools of requirements.txt."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from qa.deploy import fronts, image, unit
from qa.deploy.reading import DEPLOY, ROOT


def main() -> None:
    tools = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        check_descriptions(tools)
        check_fronts(folder / "fronts")
        check_rights(folder, tools)


def check_descriptions(tools: Path) -> None:
    """Check what the makers' tools read: Dockerfile, compose.yaml, chart."""
    _run(str(tools / "bin" / "hadolint"), str(DEPLOY / "Dockerfile"))
    schema = "vendor.compose-spec"
    _run(str(tools / "bin" / "check-jsonschema"), "--builtin-schema", schema, str(DEPLOY / "compose" / "compose.yaml"))
    _run(str(tools / "bin" / "python"), str(ROOT / "qa" / "deploy" / "charts.py"))


def check_fronts(folder: Path) -> None:
    """Check nginx and Caddy before two gateways."""
    for run in (fronts.run_nginx, fronts.run_caddy):
        own = folder / run.__name__
        own.mkdir(parents=True)
        with fronts.run_gateways(own) as (gateways, upstream), run(gateways, own) as url:
            fronts.check_front(url, gateways, upstream)
        print(f"{run.__name__.removeprefix('run_')}: streams, upload, WebSocket, address and files work", flush=True)


def check_rights(folder: Path, tools: Path) -> None:
    """Check the steps of the image, and the service unit with the environment that they install."""
    root, confined = folder / "image", folder / "unit"
    for each in (root, confined):
        each.mkdir()
        each.chmod(0o755)
    size = image.build(root)
    image.check(root)
    print(
        f"Dockerfile: its steps install {size / 1e6:.0f} MB; the gateway writes only into its data folder", flush=True
    )
    exposure = unit.measure_exposure()
    assert exposure <= unit.MAX_EXPOSURE, exposure
    module = next(tools.glob("lib/python*/site-packages/pyseccomp.py"))
    unit.check_confined_gateway(confined, root / "opt" / "tornado-gate", module)
    print(f"tornado-gate.service: exposure {exposure}; the gateway works with its system calls", flush=True)


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")
    print(f"{Path(command[0]).name} {Path(command[-1]).name}: no faults", flush=True)


if __name__ == "__main__":
    main()
