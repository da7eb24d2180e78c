"""The hooks of MkDocs for this repository: pages from outside docs/, and links that leave it.

The pages are written for the repository, where a link may lead to any file. In the site such a link leads to the page that is
made from the file, or becomes the path of the file as code.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PROJECT = {
    ROOT / name: f"project/{Path(name).name}"
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "bench/RESULTS.md")
}
BUNDLED = {path: f"plugins/bundled/{path.parent.name}.md" for path in sorted(ROOT.glob("plugins/*/README.md"))}
PAGES = {**PROJECT, **BUNDLED, ROOT / "README.md": "README.md"}
"""The page of the site that is made from a file outside docs/. README.md has the landing page of docs/ in its place."""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]+)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/."""
    for path, page in {**PROJECT, **BUNDLED}.items():
        files.append(File.generated(config, page, content=path.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page that lead to files outside docs/, and all links of a page from there."""
    docs = Path(config.docs_dir)
    uri = page.file.src_uri
    source = next((path for path, made in {**PROJECT, **BUNDLED}.items() if made == uri), docs / uri)

    def rewrite(link: re.Match[str]) -> str:
        text, target, anchor = link.groups(default="")
        goal = Path(os.path.normpath(source.parent / target))
        if not goal.exists():
            return link[0]  # MkDocs reports it
        made = goal.relative_to(docs).as_posix() if goal.is_relative_to(docs) else PAGES.get(goal, "")
        if not made or goal.is_dir():
            path = str(goal.relative_to(ROOT))
            return f"`{path}`" if text.strip("`") in (path, goal.name) else f"{text} (`{path}`)"
        return f"[{text}]({os.path.relpath(made, os.path.dirname(uri))}{anchor})"

    return LINK.sub(rewrite, markdown)
