"""The diff that an administrator reviews shows the change, and no secret in any spelling of YAML."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.admin_console import AdminConsole, serve_console
from tornado_gate.config.edit import EditRefused, set_plugin
from tornado_gate.server.process.conf_diff import make_diff, mask_secrets

CANARY = "canary-of-the-test-0123456789"
NAMES = (
    *(
        "api_key",
        "apiKey",
        "API-KEY",
        "authorization",
        "Authorization",
        "proxy-authorization",
        "x-api-key",
        "x-goog-api-key",
    ),
    *(
        "cookie",
        "set-cookie",
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "client_secret",
        "secret",
        "secrets",
        "access_token",
    ),
    *("token", "tokens", "credentials", "dsn", "private_key", "signature", "x-auth-token", "webhook_secret", "bearer"),
)
ADDRESSES = (
    f"https://user:{CANARY}@host/v1",
    f"redis://:{CANARY}@host:6379/0",
    f"postgresql://u:{CANARY}@h/db?sslmode=require",
    f"https://{CANARY}@host",
    f"https://host/v1?key={CANARY}",
    f"https://host/?a=b&token={CANARY}",
    f"https://u:a/b?{CANARY}@host",
    f"wss://host/x?access_token={CANARY}",
    f"https://host/?X-Amz-Signature={CANARY}",
    f"amqp://u:{CANARY}@h",
    f"host=h password={CANARY}",
    f"Bearer {CANARY}",
    f"Basic {CANARY}",
    f"Authorization: Token {CANARY}",
    f"${{API_KEY:-{CANARY}}}",
    f'{{"api_key": "{CANARY}"}}',
    f"sk-{CANARY}",
)


def fold(text: str, indent: str) -> str:
    """A text in two lines, within a word."""
    half = len(text) // 2
    return f"{text[:half]}\n{indent}{text[half:]}"


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def spell(text: str) -> dict[str, str]:
    """The text as a YAML value in many spellings, for an entry that is indented by four spaces."""
    plain = json.dumps(text)
    escaped = (
        '"'
        + "".join(
            f"\\x{ord(character):02x}" if character.isalnum() else json.dumps(character)[1:-1] for character in text
        )
        + '"'
    )
    return {
        "plain": text if not any(mark in text for mark in (": ", '"', "{")) else quote(text),
        "double": plain,
        "single": quote(text),
        "escaped": escaped,
        "literal": f"|\n      {text}",
        "literal with indent": f"|2-\n      {text}",
        "folded": f">-\n      {text}",
        "two lines of a literal": f"|  # a comment\n      first\n      {text}\n\n      last",
        "two lines in quotes": f'"first\n      {text.replace(chr(34), chr(92) + chr(34))}"',
        "two lines in single quotes": quote(f"first\n\n      {text}"),
        "a line that goes on": '"' + fold(json.dumps(text)[1:-1], "      ").replace("\n", "\\\n") + '"',
        "an anchor": f"&anchor {plain}",
        "a tag": f"!!str {plain}",
        "an anchor on a block": f"&anchor |\n      {text}",
        "a list": f"[{plain}, {quote(text)}]",
        "a block list": f"\n      - {plain}\n      - >\n        {text}",
    }


def list_texts() -> Iterator[tuple[str, str]]:
    """What it is, and a text of a file with the plugin ``p`` off, in whose section the canary is."""
    for name in NAMES:
        for what, value in spell(CANARY).items():
            yield f"{name}: {what}", f"    {name}: {value}\n"
        yield f"{name}: flow", f"    headers: {{x: 1, {name}: {CANARY}, y: [a]}}\n"
        yield f"{name}: flow in lines", f"    headers: {{\n      '{name}':\n        {CANARY},\n      z: 1}}\n"
        yield f"{name}: JSON", f'    headers: {{"{name}":"{CANARY}"}}\n'
        yield f"{name}: pairs", f"    headers: [{{name: {name}, value: {CANARY}}}]\n"
        yield f"{name}: a key on its own line", f"    ? {name}\n    : {CANARY}\n"
        yield f"{name}: below", f"    {name}:\n      inner:\n        - plain: {CANARY}\n"
        yield f"{name}: an alias", f"    note: &n {CANARY}\n    {name}: *n\n"
        yield f"{name}: an alias of a list", f"    notes: &n [{{a: {CANARY}}}]\n    {name}: *n\n"
        yield f"{name}: repeated", f"    {name}: {CANARY}\n    note: 'the old one was {CANARY}'\n"
        yield f"{name}: a comment", f"    # {name}: {CANARY}\n    x: '#'  # {CANARY}\n"
    for address in ADDRESSES:
        for what, value in spell(address).items():
            yield f"{address}: {what}", f"    url: {value}\n"
        yield f"{address}: flow", f"    urls: [a, {{b: {json.dumps(address)}}}]\n"
    yield "a number", "    password: 1234567890\n"


HEAD = "# first\nplugins:\n  q:\n"
TAILS = (
    "  p: off\nserver: {port: 1}\n",
    f"  p: off  # {CANARY}\nkeys:\n  - {{name: a, key: {CANARY}}}\n",
    "  p: {on: off}",
)


def is_told(diff: str) -> bool:
    return any(part in diff for part in (CANARY, CANARY[:14], CANARY[-15:], "1234567890", "\\x63\\x61"))


@pytest.mark.qa
def test_no_diff_has_a_secret_in_any_spelling() -> None:
    failed, tried = [], 0
    frames = itertools.cycle(itertools.product(("\n", "\r\n"), TAILS))
    for (what, entry), (newline, tail) in zip(list_texts(), frames, strict=False):
        text = (HEAD + entry + tail).replace("\n", newline)
        diff = make_diff(text, set_plugin(text, "p", on=True), "gate.yaml")
        tried += 1
        if is_told(diff) or "p: true" not in diff.replace("{on: true}", "true"):
            failed.append((what, diff))
        if len(mask_secrets(text).splitlines()) != len(text.splitlines()):
            failed.append((what, "other lines"))
    assert not failed, f"{len(failed)} of {tried}: {failed[:3]}"
    assert tried > 900


def test_a_diff_shows_what_is_not_secret_and_the_numbers_of_lines_of_the_file() -> None:
    text = (
        "server: {}\nplugins:\n  q:\n    authorization: |\n      one\n      two\n"
        "    api_token: ${TOKEN}\n    key_file: '${file:key}'\n"
        "    password: ''\n    models: [\"gpt-*\"]\n    keys: [nightly]\n    on: true\n  secret-guard: false\n"
    )
    diff = make_diff(text, set_plugin(text, "secret-guard", on=True), "gate.yaml")
    assert diff.splitlines() == [
        "--- gate.yaml", "+++ gate.yaml", "@@ -10,4 +10,4 @@", '     models: ["gpt-*"]', "     keys: [nightly]", "     on: true",
        "-  secret-guard: false", "+  secret-guard: true",
    ]  # fmt: skip
    masked = mask_secrets(text)
    assert "authorization: ***\n***\n***\n" in masked
    assert "api_token: ${TOKEN}\n    key_file: '${file:key}'\n    password: ''\n" in masked
    assert make_diff(text, text, "gate.yaml") == ""


def test_lines_of_other_sections_are_not_shown() -> None:
    text = "plugins:\n  p: off\nproviders:\n  mine: {plugin: p, note: of-another-section}\n"
    diff = make_diff(text, set_plugin(text, "p", on=True), "gate.yaml")
    assert diff.endswith("+  p: true\n …")


WORDS = st.sampled_from(NAMES)
SPELLINGS = st.sampled_from(sorted(spell("")))
COMMENTS = st.sampled_from(["", f"    # {CANARY}\n", "\n", "    #\n"])


@st.composite
def sections(draw: st.DrawFn) -> str:
    """Files with several secrets, comments and nested settings in the section of plugins."""
    entries = []
    for number in range(draw(st.integers(1, 4))):
        text = draw(st.sampled_from([CANARY, *ADDRESSES]))
        name = draw(WORDS) if text == CANARY else "url"
        value = spell(text)[draw(SPELLINGS)].replace("&anchor", f"&anchor{number}")
        entries += [draw(COMMENTS), f"    a{number}-{name}: {value}\n"]
    return draw(st.sampled_from(["", "\ufeff"])) + HEAD + "".join(entries) + draw(st.sampled_from(TAILS))


@pytest.mark.qa
@given(sections(), st.booleans())
def test_no_mixture_of_spellings_shows_a_secret(text: str, newlines: bool) -> None:
    text = text.replace("\n", "\r\n") if newlines else text
    try:
        new = set_plugin(text, "p", on=True)
    except EditRefused as refused:
        assert not is_told(str(refused))
        return
    assert not is_told(make_diff(text, new, "gate.yaml"))


CONF = """\
plugins:
  local: true
  redact:
    on: true
    mark: 'https://user:CANARY@host'    # CANARY
    authorization: |
      Basic CANARY
  openai: false
providers:
  local: {plugin: local}
  mine: {plugin: openai, base_url: 'ftp://user:CANARY@host', api_key: 'CANARY', headers: {authorization: 'Token CANARY'}}
models:
  local-chat: {provider: local}
"""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("diff")) as served:
        yield served


@pytest.mark.parametrize("plugin", ["openai", "redact", "cascade", "local"])
def test_no_page_answer_audit_row_or_log_of_a_switch_has_a_secret(
    console: AdminConsole, caplog: pytest.LogCaptureFixture, plugin: str
) -> None:
    console.file.write_text(CONF.replace("CANARY", CANARY), encoding="utf-8")
    on = "false" if plugin in ("redact", "local") else "true"
    review = console.post(f"/console/plugins/{plugin}/switch", on=on)
    assert review.code == 200
    digest = review.body.decode().partition('name="digest" value="')[2].partition('"')[0]
    applied = console.post(f"/console/plugins/{plugin}/switch", on=on, digest=digest or "0")
    pages = [
        review.body.decode(),
        applied.body.decode(),
        console.get("/console/audit"),
        console.get("/console/plugins"),
        caplog.text,
    ]
    for page in pages:
        assert not is_told(page), page[max(page.find(CANARY[:14]) - 200, 0) :][:400]
    assert "authorization: ***" in pages[0] or plugin != "redact"
