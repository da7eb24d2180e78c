from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-kling",
    version="0.1.0",
    description="The tornado_gate provider for the video models of Kling AI",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_kling", "tornado_gate_kling.*"]),
    package_data={"tornado_gate_kling": ["py.typed"]},
    zip_safe=False,
    install_requires=["tornado-gate", "marshmallow>=4,<5", "joserfc>=1.8,<2"],
    entry_points={"tornado_gate": ["kling = tornado_gate_kling"]},
)
