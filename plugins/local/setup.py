from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-local",
    version="0.1.0",
    description="Embedded provider for tornado_gate: chat, embeddings and moderation without network or weights",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_local", "tornado_gate_local.*"]),
    package_data={"tornado_gate_local": ["py.typed"]},
    zip_safe=False,
    install_requires=["google-re2>=1.1.20240702", "rstr>=3.2", "tornado-gate", "tornado-gate-openai"],
    # Images, videos, speech and voice sessions: 150 MB, with parts under the GPL. Only on request.
    extras_require={"media": ["tornado-gate-demo-media"]},
    entry_points={"tornado_gate": ["local = tornado_gate_local"]},
)
