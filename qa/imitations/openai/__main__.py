"""``python -m qa.imitations.openai [WORDS…]``: runs the scenarios whose id has all the words, and prints the figures."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from qa.imitations.openai.run import Stage, list_cases
from qa.imitations.openai.scenarios import SCENARIOS


def main(words: list[str]) -> int:
    """Print what is wrong with each case, then the figures; 1 when anything is wrong."""
    cases = [case for case in list_cases(SCENARIOS) if all(word in case.id for word in words)]
    refused = unreported = others = 0
    with tempfile.TemporaryDirectory() as folder, Stage(Path(folder)) as stage:
        for case in cases:
            findings = stage.run(case)
            refused += bool(findings.refused)
            unreported += bool(findings.unreported)
            others += bool(findings.others)
            for finding in findings.all:
                print(f"{case.id}: {finding[:600]}")
    scenarios = len({case.scenario.format + case.scenario.name for case in cases})
    print(
        f"OpenAI: {scenarios} scenarios, {len(cases)} requests of callers tried; refused by the vendor: {refused}; "
        f"with unreported losses: {unreported}; other differences: {others}"
    )
    return int(bool(refused or unreported or others))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
