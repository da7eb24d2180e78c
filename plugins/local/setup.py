from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-local",
    version="0.1.0",
    description="Embedded provider for tornado_gate: chat, embeddings, media and speech without network or weights",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_local", "tornado_gate_local.*"]),
    package_data={"tornado_gate_local": ["py.typed"]},
    zip_safe=False,
    install_requires=["google-re2>=1.1.20240702", "rstr>=3.2", "tornado-gate", "tornado-gate-openai"],
    # espeakng-loader contains eSpeak NG (GPL-3) and PyAV's wheels contain x264 (GPL-2): install them only on request.
    extras_require={"media": ["pillow>=11", "av>=14", "espeakng-loader>=0.2.4"]},
    entry_points={"tornado_gate": ["local = tornado_gate_local"]},
)
