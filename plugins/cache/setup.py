from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-cache",
    version="0.1.0",
    description="A wrapper for tornado_gate that answers equal requests from memory",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_cache", "tornado_gate_cache.*"]),
    package_data={"tornado_gate_cache": ["py.typed"]},
    zip_safe=False,
    install_requires=["tornado-gate", "marshmallow>=4,<5"],
    extras_require={"redis": ["redis[hiredis]>=5.1"]},  # the setting `store`
    entry_points={"tornado_gate": ["cache = tornado_gate_cache:Cache"]},
)
