from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-dashscope",
    version="0.1.0",
    description="The tornado_gate provider for the image models of Alibaba Model Studio (DashScope)",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_dashscope", "tornado_gate_dashscope.*"]),
    package_data={"tornado_gate_dashscope": ["py.typed"]},
    zip_safe=False,
    install_requires=["tornado-gate", "tornado-gate-openai", "marshmallow>=4,<5"],
    entry_points={"tornado_gate": ["dashscope = tornado_gate_dashscope"]},
)
