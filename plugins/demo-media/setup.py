from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="tornado-gate-demo-media",
    version="0.1.0",
    description="Images, videos, speech and voice sessions for tornado_gate's embedded provider, without network or weights",
    long_description=(Path(__file__).parent / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate_demo_media", "tornado_gate_demo_media.*"]),
    package_data={"tornado_gate_demo_media": ["py.typed"]},
    zip_safe=False,
    # espeakng-loader contains eSpeak NG (GPL-3), wheels of PyAV contain x264 (GPL-2): no other distribution requires this one.
    install_requires=[
        "av>=14",
        "espeakng-loader>=0.2.4",
        "pillow>=11",
        "tornado-gate",
        "tornado-gate-local",
        "tornado-gate-openai",
    ],
)
