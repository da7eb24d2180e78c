"""The conformance suite llm-comply, which checks answers with the schemas of the vendors' published API descriptions.

It runs against every wire format, and for each against a model of the embedded provider and against the same model behind a
second gateway, by each of the three provider plugins: so every pair of formats is covered, the verbatim lane included. ``make
conformance`` prints a table.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qa.conformance.llm_comply import FORMATS, MODELS, run_suite, running_site


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_site(tmp_path_factory.mktemp("conformance")) as url:
        yield url


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("wire_format", FORMATS)
def test_every_answer_conforms(url: str, wire_format: str, model: str) -> None:
    outcome = run_suite(url, wire_format, model)
    failed = {test["id"]: test["errors"] for test in outcome if test["status"] == "failed"}
    assert len(outcome) >= 9
    assert failed == {}
