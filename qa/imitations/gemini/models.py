"""What each model accepts, by the vendor's pages: a table of this imitation's own, beside the gateway's.

Sources, read 2026-11-22 unless a row has its own:

- P1 ai.google.dev/gemini-api/docs/thinking: budgets of 2.5 (128 to 32,768 and not 0 for Pro, 0 to 24,576 for Flash, 512 to 24,576
  for Flash-Lite; earendil-works/pi#3460, saurabhav88/EnviousWispr#1769); levels before Gemini 3 are an error
  (juspay/neurolink#1707).
- P2 docs.cloud.google.com/gemini-enterprise-agent-platform/models/thinking: levels of Gemini 3 and later.
- P3 ai.google.dev/gemini-api/docs/thought-signatures: checked from Gemini 3 on.
- P4 ai.google.dev/gemini-api/docs/function-calling and /structured-output: from Gemini 3 on tools with JSON, media in responses.
- P5 Penalties: google-gemini/cookbook#1290 (2026-07-17), vercel/ai#8943. Candidates: googleapis/js-genai#1609 (2026-05-18).
- P6 Gemini 4: dev.to/aihubmix, "Gemini 4 Neon migration": budgets, MINIMAL, penalties and more than one candidate are errors.
- P7 apidog.com/blog/gemini-3-7-to-3-8-flash-migration-guide: MINIMAL is an error from 3.7 Flash on.
- P8 ai.google.dev/gemini-api/docs/latest-model, "Starting with Gemini 3.6 Flash and Gemini 3.5 Flash-Lite, the following API
  changes apply to these models and all future Gemini model releases" (cline/cline#12521, 2026-07-24): no begun answers (3.5 Flash
  and 2.5 accept them: LibreChat-AI/agents#323, 2026-07-21); temperature, topP and topK are ignored
  (TypeWhisper/typewhisper-win#406).
- P9 Log probabilities: "Logprobs is not enabled for models/gemini-2.5-flash-lite", not so 2.0
  (Vela-Research/think-reason-learn#34, 2025-10-22; googleapis/python-genai#1921, 2026-01-07); 3.5 Flash:
  GoogleCloudPlatform/generative-ai#2947 (2026-06-22).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from qa.imitations.gemini.refusal import refuse

_THREE: Final = ("LOW", "MEDIUM", "HIGH")
_FOUR: Final = ("MINIMAL", *_THREE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model. `budgets`: the least and the largest budget, None for none; `off`: 0 is accepted. `levels`: of Gemini 3 and
    later. `third`: the rules of Gemini 3 and later for signatures, tools with JSON, and media in function responses. `newest`:
    those since Gemini 3.6 (P8).
    """

    budgets: tuple[int, int] | None = None
    off: bool = True
    levels: tuple[str, ...] = ()
    third: bool = False
    newest: bool = False
    penalties: bool = False
    logprobs: bool = False
    candidates: int = 8
    most_output: int = 65536


_FIRST_THREE: Final = Model(budgets=(0, 65536), levels=_FOUR, third=True, candidates=1)

MODELS: Final[tuple[tuple[str, Model], ...]] = (
    ("gemini-2.0-flash*", Model(penalties=True, logprobs=True, most_output=8192)),  # P5, P9; no thinking
    ("gemini-2.5-flash-lite*", Model(budgets=(512, 24576))),  # P1
    ("gemini-2.5-flash*", Model(budgets=(0, 24576))),  # P1
    ("gemini-2.5-pro*", Model(budgets=(128, 32768), off=False)),  # P1
    ("gemini-3-pro*", replace(_FIRST_THREE, levels=("LOW", "HIGH"), off=False)),  # P2
    ("gemini-3.1-pro*", replace(_FIRST_THREE, levels=_THREE, off=False)),  # P2
    ("gemini-3-flash*", _FIRST_THREE),  # P2
    ("gemini-3.1-flash-lite*", _FIRST_THREE),  # P2
    ("gemini-3.5-flash-lite*", replace(_FIRST_THREE, newest=True)),  # P2, P8
    ("gemini-3.5-flash*", _FIRST_THREE),  # P2
    ("gemini-3.6-flash*", replace(_FIRST_THREE, newest=True)),  # P2, P8
    ("gemini-3.7-flash*", replace(_FIRST_THREE, levels=_THREE, newest=True)),  # P7, P8
    ("gemini-3.8-flash*", replace(_FIRST_THREE, levels=_THREE, newest=True)),  # P7, P8
    ("gemini-4-neon*", replace(_FIRST_THREE, budgets=None, levels=_THREE, newest=True)),  # P6, P8
)


def find_model(name: str) -> Model:
    """The facts of a model. Refuses names that the vendor does not have."""
    for pattern, model in MODELS:
        if fnmatchcase(name, pattern):
            return model
    refuse(f"models/{name} is not found for API version v1beta, or is not supported for generateContent.")
