"""One definition of secret names and values, for logs, faults and diffs."""

from __future__ import annotations

import time
from pathlib import Path

from tornado_gate import config as conf
from tornado_gate.codec.secret_words import (
    is_harmless,
    is_secret_name,
    is_secret_value,
    list_secrets,
    mask_address,
    quote_value,
)
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.telemetry.redaction import Scrubber

CONF = """
plugins:
  redact: {on: true, headers: {authorization: 'Token nested-secret-1'}, urls: ['https://user:nested-secret-2@host']}
providers: {}
"""


def test_secrets_are_known_by_name_or_by_form() -> None:
    for name in ("api_key", "Authorization", "x-auth-token", "clientSecret", "passphrase", "set-cookie", "private_key"):
        assert is_secret_name(name), name
    for name in ("mark", "models", "author", "timeout", "base_url", "on"):
        assert not is_secret_name(name), name
    for text in (
        "redis://:pw@h",
        "https://h/?a=1&token=x",
        "Basic dXNlcg==",
        "sk-012345678",
        "${KEY:-default-of-a-key}",
    ):
        assert is_secret_value(text), text
    for text in (
        "https://h/v1",
        "gpt-4o-mini-2024-07-18",
        "local-*",
        "${KEY}",
        "${file:/run/secrets/key}",
        "redis://h:6379",
    ):
        assert not is_secret_value(text), text
    assert is_harmless(" '${KEY}' ")
    assert not is_harmless("${KEY:-x}")
    assert quote_value("ftp://user:pw@host") == "***"
    assert quote_value("sometimes") == "'sometimes'"


def test_addresses_are_shown_without_logins_and_secret_parameters() -> None:
    for address, shown in {
        "https://user:pw@host:1/v1?alt=sse&key=k&x-token=t&empty": "https://***@host:1/v1?alt=sse&key=***&x-token=***&empty",
        "redis://:pw@h": "redis://***@h",
        "https://host/a@b?c=d@e": "https://host/a@b?c=d@e",
        "https://host/v1": "https://host/v1",
    }.items():
        assert mask_address(address) == shown
    scrubber = Scrubber()
    for text in ("cannot reach postgresql://gate:pw@db/gate", "https://tok@h, wss://u:p@h"):
        assert not scrubber.is_clean(text)
        assert "pw" not in scrubber.scrub_text(text)
        assert "tok" not in scrubber.scrub_text(text)
    assert scrubber.is_clean("ann@example.org reads https://host/a@b")


def test_nested_settings_and_passwords_in_addresses_are_masked_in_logs(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(CONF, encoding="utf-8")
    assert {"Token nested-secret-1", "nested-secret-2"} <= collect_secrets(conf.load(file, {}))
    assert set(list_secrets({"a": [{"token": ["one"], "b": "two"}]})) == {"one"}


def test_the_worst_texts_take_less_than_a_second() -> None:
    size = 65_536
    for part in (
        "a",
        "key",
        "://",
        "@",
        "?a=&",
        "://@",
        "://a@",
        "key ",
        "bearer ",
        "A1",
        "1",
        "a-",
        "${",
        "${A",
        "${file:",
        "auth",
        "key.-",
        "key:",
    ):
        text = part * (size // len(part))
        start = time.thread_time()
        is_secret_value(text)
        is_harmless(text)
        list(list_secrets(text, "key"))
        mask_address(text)
        assert time.thread_time() - start < 1, part
