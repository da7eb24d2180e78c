"""The bodies of messages: JSON for webhooks, text for chats and mails."""

from __future__ import annotations

import re
import time
from typing import Any, Final

import orjson

from tornado_gate.alerts.values import Notice

_MENTION: Final = re.compile(r"@(?=(?:all|channel|everyone|here)\b)", re.IGNORECASE)
"""Words that notify everybody in a chat. Mattermost finds them in messages of webhooks too."""
_MARKS: Final = {"warning": "Warning", "critical": "Critical"}


def make_test_notice(identity: str, moment: float) -> Notice:
    """Return a message with which an operator tests a sink."""
    return Notice(
        id=f"alert_test_{identity}",
        phase="test",
        kind="test",
        severity="warning",
        title="Test of the alerts",
        message="This is a test. Alerts of tornado-gate arrive here.",
        moment=moment,
    )


def make_subject(notice: Notice) -> str:
    """Return one line that says everything: for the subject of a mail, and the head of a chat message."""
    mark = {"resolved": "Resolved", "test": "Test"}.get(notice.phase) or _MARKS[notice.severity]
    return f"[{mark}] {notice.title}"


def make_text(notice: Notice, public_url: str) -> str:
    """Return the lines below the subject."""
    message = "The cause is no longer seen." if notice.phase == "resolved" else notice.message
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(notice.moment))
    lines = [message, moment]
    if public_url:
        lines.append(f"{public_url}/console/alerts")
    return "\n".join(lines)


def render_webhook(notice: Notice) -> bytes:
    """Return an event as JSON, the same bytes for each attempt."""
    event = {
        "id": notice.id,
        "object": "event",
        "type": f"alert.{notice.phase}",
        "created_at": int(notice.moment),
        "data": {
            "kind": notice.kind,
            "severity": notice.severity,
            "title": notice.title,
            "message": notice.message,
        },
    }
    return orjson.dumps(event)


def render_slack(notice: Notice, public_url: str) -> bytes:
    """Return a message for an incoming webhook of Slack, and of Mattermost and others that accept its format.

    `text` is Slack's mrkdwn, in which &, < and > must be escaped: api.slack.com/reference/surfaces/formatting, 2026.
    """
    subject, text = _make_plain(make_subject(notice)), _make_plain(make_text(notice, public_url))
    text = f"*{_escape(subject)}*\n{_escape(text)}"
    return orjson.dumps({"text": text})


def _make_plain(text: str) -> str:
    """Return a text without links and mentions of Markdown, as users choose the names of keys and teams."""
    return _MENTION.sub("@\u200b", text).replace("](", "] (")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render_teams(notice: Notice, public_url: str) -> bytes:
    """Return a message for the trigger "When a Teams webhook request is received" of Teams' workflows: an adaptive card."""
    subject, text = _make_plain(make_subject(notice)), _make_plain(make_text(notice, public_url))
    blocks: list[dict[str, Any]] = [
        {"type": "TextBlock", "text": subject, "weight": "Bolder", "wrap": True},
        {"type": "TextBlock", "text": text.replace("\n", "\n\n"), "wrap": True},
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return orjson.dumps({"type": "message", "attachments": [attachment]})
