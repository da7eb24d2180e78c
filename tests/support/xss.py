"""Texts that break pages which do not escape them, and a parser that finds what a browser would see of them."""

from __future__ import annotations

from html.parser import HTMLParser

MARK = "xss7"
"""Every text that would run a script names it, so that a page is searched for what has become of them."""

CORPUS: tuple[str, ...] = (
    "<script>xss7()</script>",
    "</script><script>xss7()</script>",
    "<ScRiPt src=//xss7.example></sCrIpT>",
    "<img src=x onerror=xss7()>",
    "<svg onload=xss7()>",
    "<svg><script>xss7()</script></svg>",
    "<svg><animate onbegin=xss7() attributeName=x dur=1s>",
    "<iframe srcdoc='<script>xss7()</script>'>",
    "<body onload=xss7()>",
    "<details open ontoggle=xss7()>",
    "<a href=javascript:xss7()>a</a>",
    "javascript:xss7()",
    '"><script>xss7()</script>',
    "'><script>xss7()</script>",
    '" onfocus=xss7() autofocus x="',
    "' onfocus=xss7() autofocus x='",
    "` onfocus=xss7() `",
    '"',
    "'",
    "`",
    'O\'Brien "the" <admin>',
    "</title><script>xss7()</script>",
    "</textarea><script>xss7()</script>",
    "</option></select><script>xss7()</script>",
    "</style><script>xss7()</script>",
    "<!--<script>xss7()</script>",
    "--><script>xss7()</script>",
    "<![CDATA[<script>xss7()</script>]]>",
    "{{1337*31337}}",
    "{% raw 1337*31337 %}",
    "{{ handler.settings }}",
    "${1337*31337}",
    "#{1337*31337}",
    "<%= 1337*31337 %>",
    "&lt;script&gt;xss7()&lt;/script&gt;",
    "&#x3c;script&#x3e;xss7()",
    "\\u003cscript\\u003exss7()",
    "%3Cscript%3Exss7()%3C/script%3E",
    '=HYPERLINK("http://xss7.example")',
    "+1+cmd|'/C calc'!A0",
    "-1@SUM(1)",
    "@import 'xss7'",
    "\u202eexe.\u202cxss7",
    "a\u200bb\ufeffc",
    "e\u0301" * 50,
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "x\r\nSet-Cookie: xss7=1",
    "x\x00y",
    "\ufdfd" * 20,
    "A" * 10_000,
)


class _Scan(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.faults.append(f"<{tag} {name}={value!r}>")
            if name in ("href", "src", "action", "formaction") and (value or "").strip().lower().startswith(
                ("javascript:", "//", "vbscript:", "data:text")
            ):
                self.faults.append(f"<{tag} {name}={value!r}>")
            self.texts.append(value or "")
        if tag in ("iframe", "object", "embed", "base", "animate", "style") or (
            tag == "script" and not dict(attrs).get("src", "").startswith("/console/static/")  # type: ignore[union-attr]  # None has no start
        ):
            self.faults.append(f"<{tag}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def find_markup(page: str) -> list[str]:
    """Elements and attributes of a page that run something, or that the console never sends; [] for a safe page."""
    scan = _Scan()
    scan.feed(page)
    scan.close()
    return scan.faults


def read_texts(page: str) -> str:
    """All texts and attributes of a page, as a browser decodes them."""
    scan = _Scan()
    scan.feed(page)
    scan.close()
    return "\n".join(scan.texts)
