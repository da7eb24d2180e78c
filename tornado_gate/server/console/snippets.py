"""Code snippets of the home page: files in `templates/snippets`, each complete and runnable.

They name the gateway's address and one of its models, as literals of their language.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent / "templates" / "snippets"
KEY_PLACEHOLDER = "YOUR_API_KEY"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_PLACE = re.compile(r"\{\{ (url|model) \}\}")


@lru_cache(1)
def list_snippets() -> dict[str, str]:
    """Return the titles of the snippets by name, in the order of their tabs."""
    titles: dict[str, str] = json.loads((FOLDER / "titles.json").read_text(encoding="utf-8"))
    return titles


@lru_cache(16)
def _read_file(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").rstrip()


def render_snippet(name: str, url: str, model: str) -> str:
    """Return the text of a snippet. `model` must be `is_plain`, because it stands between quotes of several languages."""
    values = {"url": url, "model": model}
    return _PLACE.sub(lambda match: values[match[1]], _read_file(name))


def read_provider_example() -> str:
    """Return lines of conf that add a vendor."""
    return _read_file("provider")


def is_plain(name: str) -> bool:
    """Return whether a name can stand unchanged between quotes of every language."""
    return _PLAIN.fullmatch(name) is not None
