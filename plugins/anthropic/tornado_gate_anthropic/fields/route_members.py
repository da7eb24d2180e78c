"""Members of bodies that routes declare to the core: the limit of the response, marks of signatures, and names of other models.

Sources of `other_models`: anthropic-sdk-python, types/beta/beta_advisor_tool_20260301_param.py and beta_fallback_param.py.
"""

from __future__ import annotations

from typing import Any, Final

MESSAGES: Final[dict[str, Any]] = {
    "other_models": ("tools.*.model", "fallbacks.*.model"),
    "answer_limits": ("max_tokens",),
    "signature_marks": (b"ignature", b"encrypted_content"),
}
