"""The texts of alerts in chats, with names that users have chosen."""

from __future__ import annotations

import json

import pytest

from tornado_gate.alerts.texts import render_slack, render_teams
from tornado_gate.alerts.values import Notice

HOSTILE = "@channel [verify](https://evil.example) <!here> <https://evil.example|log in> @All @here.example"


@pytest.mark.parametrize("render", [render_slack, render_teams])
def test_a_name_is_no_link_and_notifies_nobody(render: object) -> None:
    notice = Notice(
        id="alert_1",
        phase="raised",
        kind="key_expires",
        severity="warning",
        title=f"The key {HOSTILE} expires",
        message=f"The key {HOSTILE} of ann@example.com expires.",
        moment=0.0,
    )
    text = json.dumps(json.loads(render(notice, "https://gate.example")), ensure_ascii=False)  # type: ignore[operator]
    assert [mark for mark in ("](", "@channel", "@All", "@here") if mark in text] == []
    assert "ann@example.com" in text
    assert "https://gate.example/console/alerts" in text
    assert ("<!here>" in text) is (render is render_teams), "Teams has no such marks"
