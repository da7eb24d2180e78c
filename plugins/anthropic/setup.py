from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-anthropic",
    version="0.1.0",
    description="Anthropic's wire format for callers of tornado_gate, and the provider for upstreams with its Messages API",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_anthropic", "tornado_gate_anthropic.*"]),
    package_data={"tornado_gate_anthropic": ["py.typed"], "tornado_gate_anthropic.provider": ["models.yaml"]},
    zip_safe=False,
    install_requires=["tornado-gate", "marshmallow>=4,<5", "PyYAML>=6"],
    entry_points={
        "tornado_gate": [
            "format-anthropic = tornado_gate_anthropic.format",
            "anthropic = tornado_gate_anthropic.provider",
        ]
    },
)
