from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-format-openai",
    version="0.1.0",
    description="OpenAI's wire format for callers of tornado_gate: chat, responses, embeddings, media and models",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_format_openai", "tornado_gate_format_openai.*"]),
    package_data={"tornado_gate_format_openai": ["py.typed"]},
    zip_safe=False,
    install_requires=["tornado-gate"],
    entry_points={"tornado_gate": ["format-openai = tornado_gate_format_openai"]},
)
