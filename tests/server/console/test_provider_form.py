"""The form of a provider entry: the key that it keeps between its steps."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from tests.support.gates import make_config
from tornado_gate.config.secret_store import SecretStore
from tornado_gate.server.console.provider_form import find_draft_secret


def test_only_a_secret_that_no_conf_has_named_is_the_key_of_a_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GATE_SECRET_KEY", raising=False)
    config = make_config(tmp_path)
    clock = count(1.0)
    store = SecretStore(tmp_path, {}, clock=lambda: next(clock))
    store.write("draft", "key-of-a-form", is_draft=True)
    assert find_draft_secret(config, "draft") == "${secret:draft}"
    store.retire({"draft"})
    assert find_draft_secret(config, "draft") == "", "conf names it"
    store.retire((), {"draft"})
    assert find_draft_secret(config, "draft") == "", "it was the key of another entry, and may still be valid there"
