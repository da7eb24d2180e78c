"""The documentation site builds without a warning, is the same each time, and names no other host in what a browser loads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.site import ROOT, build_site

LOADED = re.compile(r"<(?:link|script|img|iframe|source|video|audio)\b[^>]*\b(?:href|src)=[\"']?(?:https?:)?//[^>]*>")
IN_STYLES = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


@pytest.mark.qa
def test_every_page_is_in_the_site_and_in_its_search(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in ROOT.glob("docs/**/*.md")}
    expected = {re.sub(r"(^|/)README\.html$", r"\1index.html", page) for page in pages}
    built = {path.relative_to(site).as_posix() for path in site.glob("**/*.html")}
    assert expected <= built
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    assert expected <= {entry["location"].partition("#")[0] for entry in index["docs"]}


@pytest.mark.qa
def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    for path in site.glob("**/*.html"):
        assert not LOADED.findall(path.read_text(encoding="utf-8")), path.name
    for path in site.glob("**/*.css"):
        assert not IN_STYLES.findall(path.read_text(encoding="utf-8")), path.name


@pytest.mark.qa
@pytest.mark.parametrize("link", ["nowhere.md", "../nowhere.py", "page.md#nowhere"])
def test_a_wrong_link_is_an_error(tmp_path: Path, link: str) -> None:
    docs, settings = tmp_path / "docs", tmp_path / "mkdocs.yml"
    docs.mkdir()
    (docs / "page.md").write_text(f"# Page\n\nSee [this]({link}).\n", encoding="utf-8")
    own = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": str(docs), "nav": ["page.md"], "hooks": []}
    settings.write_text(json.dumps(own), encoding="utf-8")
    with pytest.raises(AssertionError, match="nowhere"):
        build_site(tmp_path / "site", settings)


@pytest.mark.qa
def test_two_builds_are_equal(site: Path, tmp_path: Path) -> None:
    build_site(tmp_path)
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (site, tmp_path)
    )
    assert first.keys() == second.keys()
    assert not [name for name, content in first.items() if second[name] != content]
