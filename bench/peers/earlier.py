"""This gateway at a fixed commit, so that a slow drift of the cost shows. It needs the history of the checkout."""

from __future__ import annotations

from bench.peers.ours import CONF, KEY
from bench.side import SideFacts

COMMIT = "579db62cdcca1a90b1fc3f89334351e5a288bf24"
SOURCE = "$peers/earlier/source"
PLUGINS = ("format-openai", "format-anthropic", "format-gemini", "local", "openai")

FACTS = SideFacts(
    name="earlier",
    title="tornado_gate of 2026-11-21",
    work="the same, with the features of that day",
    install=(
        # By a shell, so that a machine without git reports it as any other failure.
        ("sh", "-c", f"git -C '$root' archive -o '$peers/earlier/source.tar' {COMMIT} setup.py tornado_gate plugins"),
        ("mkdir", "-p", SOURCE),
        ("tar", "-xf", "$peers/earlier/source.tar", "-C", SOURCE),
        ("$bin/python", "-m", "venv", "--without-pip", "$peers/earlier"),
        (
            *("$bin/python", "-m", "pip", "--python", "$peers/earlier", "install", "-q", SOURCE),
            *(f"{SOURCE}/plugins/{name}" for name in PLUGINS),
        ),
    ),
    version=("$peers/earlier/bin/tornado-gate", "--version"),
    command=("$peers/earlier/bin/tornado-gate", "serve", "--conf", "$folder/gate.yaml"),
    files={"gate.yaml": CONF},
    headers={"Authorization": f"Bearer {KEY}"},
    size="$peers/earlier",
)
