"""The language of the console: the browser's, or the visitor's choice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.admin_console import AdminConsole, serve_console
from tornado_gate.server.console.languages import scripts

CHINESE = "zh-CN,zh;q=0.9,en;q=0.8"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("languages")) as served:
        yield served


def read_page(console: AdminConsole, path: str = "/console/keys", cookie: str = "", **headers: str) -> str:
    cookies = f"gate_session={console.cookies['administrator']}" + (f"; gate_language={cookie}" if cookie else "")
    response = console.send("GET", path, Cookie=cookies, **headers)
    assert response.code == 200
    return response.body.decode()


@pytest.mark.parametrize("accepted", ["", "en", "fr-FR", "de,en;q=0.5", "*", ";;q=,"])
def test_english_is_the_language_without_a_better_one(console: AdminConsole, accepted: str) -> None:
    page = read_page(console, Accept_Language=accepted)
    assert '<html lang="en">' in page
    assert "<h1>API keys</h1>" in page
    assert 'href="/console/language?to=zh"' in page


@pytest.mark.parametrize("accepted", [CHINESE, "zh", "zh-TW", "fr;q=0.1, zh;q=0.9"])
def test_the_browsers_language_is_taken(console: AdminConsole, accepted: str) -> None:
    page = read_page(console, Accept_Language=accepted)
    assert '<html lang="zh-Hans">' in page
    assert "<h1>API 密钥</h1>" in page
    assert 'href="/console/language?to=en"' in page


def test_the_choice_is_kept_and_leads_back(console: AdminConsole) -> None:
    back = console.send("GET", "/console/language?to=zh", Referer=f"{console.url}/console/usage?range=24h")
    assert (back.code, back.headers["Location"]) == (302, "/console/usage?range=24h")
    [cookie] = [value for value in back.headers.get_list("Set-Cookie") if value.startswith("gate_language=")]
    assert cookie.startswith("gate_language=zh;")
    assert "HttpOnly" in cookie
    assert '<html lang="zh-Hans">' in read_page(console, cookie="zh", Accept_Language="en")
    assert '<html lang="en">' in read_page(console, cookie="en", Accept_Language=CHINESE)
    assert '<html lang="en">' in read_page(console, cookie="../../etc", Accept_Language="en")


def test_an_unknown_language_or_a_foreign_page_changes_nothing(console: AdminConsole) -> None:
    for path, page in (("?to=xx", "/console/keys"), ("", "https://evil.example/x")):
        back = console.send("GET", f"/console/language{path}", "anonymous", Referer=page)
        assert back.headers["Location"] in ("/console/keys", "/console/")
        assert "gate_language" not in back.headers.get("Set-Cookie", "")


def test_requests_of_different_languages_do_not_mix(console: AdminConsole) -> None:
    for _ in range(3):
        assert "密钥" in read_page(console, Accept_Language=CHINESE)
        assert "密钥" not in read_page(console, Accept_Language="en")


def test_errors_are_translated(console: AdminConsole) -> None:
    missing = console.send("GET", "/console/nothing", Accept_Language=CHINESE)
    assert (missing.code, "控制台没有此页面" in missing.body.decode()) == (404, True)


def test_scripts_get_the_texts_of_another_language_only(console: AdminConsole) -> None:
    assert 'id="messages"' not in read_page(console, Accept_Language="en")

    page = read_page(console, Accept_Language=CHINESE)

    block = re.search(r'<script type="application/json" id="messages">(.*?)</script>', page)
    assert block is not None
    assert json.loads(block[1])["Times in UTC"] == "以 UTC 显示时间"


def test_a_text_cannot_end_the_block_of_the_scripts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scripts, "FOLDER", tmp_path)
    (tmp_path / "xx" / "LC_MESSAGES").mkdir(parents=True)
    (tmp_path / "xx" / scripts.FILE).write_text(json.dumps({"a": "</script><!--&"}))

    block = scripts.load_script_messages("xx")

    assert not set("<>&") & set(block)
    assert json.loads(block) == {"a": "</script><!--&"}
