"""The texts of the console's scripts in a language, as JSON that a page carries."""

from __future__ import annotations

import json
from functools import lru_cache

from tornado_gate.server.console.languages.catalogues import ENGLISH, FOLDER

FILE = "LC_MESSAGES/scripts.json"
"""The file in the folder of a language. `make messages` writes it."""
CONTEXT = "script"
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@lru_cache
def load_script_messages(language: str) -> str:
    """Return the translations by message as JSON for a page: it cannot end its element. "" for English."""
    if language == ENGLISH:
        return ""
    messages = json.loads((FOLDER / language / FILE).read_bytes())
    return json.dumps(messages, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
