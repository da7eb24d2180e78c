from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-redact",
    version="0.1.0",
    description="A guard for tornado_gate that replaces personal data and secrets in requests and answers",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_redact", "tornado_gate_redact.*"]),
    package_data={"tornado_gate_redact": ["py.typed"]},
    zip_safe=False,
    install_requires=["google-re2>=1.1.20240702", "marshmallow>=4,<5", "phonenumberslite>=9,<10", "tornado-gate"],
    entry_points={"tornado_gate": ["redact = tornado_gate_redact:Redact"]},
)
