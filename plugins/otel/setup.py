from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-otel",
    version="0.1.0",
    description="A wrapper for tornado_gate that sends traces, metrics and logs to OpenTelemetry collectors",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_otel", "tornado_gate_otel.*"]),
    package_data={"tornado_gate_otel": ["py.typed"]},
    zip_safe=False,
    install_requires=[
        "marshmallow>=4,<5",
        "opentelemetry-api>=1.45,<2",
        "opentelemetry-exporter-otlp-proto-http>=1.45,<2",
        "opentelemetry-sdk>=1.45,<2",
        "tornado-gate",
    ],
    entry_points={"tornado_gate": ["otel = tornado_gate_otel:OpenTelemetry"]},
)
