from pathlib import Path

from setuptools import setup

setup(
    name="tornado-gate-acme",
    version="0.1.0",
    description="A provider for tornado-gate: Acme",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.11",
    py_modules=["tornado_gate_acme", "tornado_gate_acme_conformance"],
    install_requires=["tornado-gate", "tornado-gate-openai"],
    extras_require={"test": ["pytest>=8"]},
    entry_points={"tornado_gate": ["acme = tornado_gate_acme:Acme"]},
)
