"""The links of all pages lead to files and headings, and the pages that code, tests and messages name exist."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.reference.hooks import make_anchor

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md"), ROOT / "bench/README.md"]
)
LINK = re.compile(r"\]\(([^)\s#:]*)(?:#([^)\s:]+))?\)")
NAMED = re.compile(r"(?<![\w./-])docs/(?!my-website/|gen-ai/|http/)[\w/-]+\.md")
"""A page of this project; the excluded folders belong to projects that are named as sources."""
GENERATED = ("node_modules", "var", "site", "build", "dist", "__pycache__")


def read_prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def find_anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page; a heading that occurs again has a number, as on GitHub."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", read_prose(page), re.M):
        anchor = make_anchor(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", ""))
        number = 0
        while (numbered := f"{anchor}-{number}" if number else anchor) in anchors:
            number += 1
        anchors.add(numbered)
    return anchors


def test_links_lead_to_files_and_headings() -> None:
    anchors = {page: find_anchors(page) for page in PAGES}
    faults = []
    for page in PAGES:
        for target, anchor in LINK.findall(read_prose(page)):
            goal = (page.parent / target).resolve() if target else page
            if not goal.exists():
                faults.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and goal in anchors and anchor not in anchors[goal]:
                faults.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert not faults, "\n".join(faults)


def find_sources() -> Iterator[Path]:
    """The files of the project that may name a page, without installed packages."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in GENERATED and not name.startswith(".")]
        yield from (Path(folder, name) for name in names if name.endswith((".py", ".md", ".yaml", ".html")))


def test_pages_that_code_and_messages_name_exist() -> None:
    named = {(source, page) for source in find_sources() for page in NAMED.findall(source.read_text(encoding="utf-8"))}
    assert len(named) > 50
    assert not {f"{source}: {page}" for source, page in named if not (ROOT / page).exists()}
