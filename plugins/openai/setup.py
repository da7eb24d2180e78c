from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-openai",
    version="0.1.0",
    description="OpenAI's wire format for callers of tornado_gate, and the provider for OpenAI and compatible upstreams",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_openai", "tornado_gate_openai.*"]),
    package_data={
        "tornado_gate_openai": ["py.typed"],
        "tornado_gate_openai.provider": ["models.yaml", "presets.yaml"],
        "tornado_gate_openai.wire.images": ["families.yaml"],
    },
    zip_safe=False,
    install_requires=["tornado-gate", "marshmallow>=4,<5", "PyYAML>=6"],
    entry_points={
        "tornado_gate": [
            "format-openai = tornado_gate_openai.format",
            "openai = tornado_gate_openai.provider",
        ]
    },
)
