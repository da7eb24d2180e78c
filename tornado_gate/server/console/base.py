"""The base of the console's pages: session, access, protection against cross-site requests, templates, messages.

A page declares `access`; there is no default. The session is a random value in a cookie, of which the database has the digest.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, overload
from urllib.parse import quote, urlsplit

from tornado.web import HTTPError

from tornado_gate import __version__
from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.key_rules import list_managed_teams
from tornado_gate.accounts.people import Actor, Membership, Session, User
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import GateError, NotAllowed, Unavailable
from tornado_gate.http.forwarded import Origin
from tornado_gate.server.console import words
from tornado_gate.server.console.assets import get_asset_address
from tornado_gate.server.console.cookies import find_cookie, make_cookie_name, make_protection
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.server.handlers.common import find_request_origin
from tornado_gate.server.services import Services
from tornado_gate.types.value import replace

HOME = "/console/"
LOGIN = "/console/login"
SESSION_COOKIE = "gate_session"
FLASH_COOKIE = "gate_flash"
XSRF_COOKIE = "gate_xsrf"
MAX_AGENT_LENGTH = 300

Access = Literal["public", "member", "administrator"]

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

NAVIGATION = (
    (HOME, "Home"),
    ("/console/keys", "API keys"),
    ("/console/usage", "Usage"),
    ("/console/playground", "Playground"),
    ("/console/tasks", "Tasks"),
    ("/console/account", "Account"),
)
ADMINISTRATION = (
    ("/console/models", "Models"),
    ("/console/providers", "Providers"),
    ("/console/plugins", "Plugins"),
    ("/console/users", "Users"),
    ("/console/teams", "Teams"),
    ("/console/limits", "Limits"),
    ("/console/requests", "Requests"),
    ("/console/audit", "Audit log"),
)
TEAM_ADMINISTRATION = (("/console/teams", "Teams"),)


class ConsoleHandler(GateHandler):
    """A page. `session` is that of the visitor, None on public pages without one."""

    access: ClassVar[Access]
    session: Session | None = None
    manages_teams = False  # as an administrator of a team, which is a member of the gateway

    def initialize(self, services: Services) -> None:  # type: ignore[override]  # pages need more than the gate
        super().initialize(services.gate)
        self.services = services

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")
        self.set_header("Permissions-Policy", "camera=(), geolocation=(), microphone=(self)")

    async def prepare(self) -> None:
        """Find the session and check access. Pages without a session lead to the sign-in page."""
        if self.request.method not in ("GET", "HEAD"):
            self._refuse_other_sites()
            self.check_xsrf_cookie()
        cookie = self.read_cookie(SESSION_COOKIE)
        if cookie:
            self.session = await self.run_database(self.services.accounts.sessions.find, cookie)
        if self.access == "public":
            return
        if self.session is None:
            path = self.request.uri if self.request.method == "GET" else HOME
            self.redirect(f"{LOGIN}?next={quote(path or HOME)}")
        elif self.access == "administrator" and self.session.user.role != "administrator":
            raise NotAllowed("This page is for administrators of the gateway. Ask one of them for access.")
        elif self.session.user.role != "administrator":
            found = await self.run_database(self.services.accounts.members.list_of_user, self.session.user.id)
            self.manages_teams = bool(list_managed_teams(found))

    def _refuse_other_sites(self) -> None:
        """A second guard beside the token: browsers say where a request comes from."""
        origin = self.request.headers.get("Origin")
        site = self.request.headers.get("Sec-Fetch-Site", "same-origin")
        if site not in ("same-origin", "none") or (origin and urlsplit(origin).netloc != self.origin.host):
            raise HTTPError(403, "this request comes from another site")

    # The visitor

    @property
    def user(self) -> User:
        """The visitor of a page that is not public."""
        assert self.session is not None
        return self.session.user

    @property
    def origin(self) -> Origin:
        """The visitor's IP address, and the scheme and host that the browser used."""
        return find_request_origin(self.request, self.snapshot.config.server)

    @property
    def agent(self) -> str:
        return self.request.headers.get("User-Agent", "")[:MAX_AGENT_LENGTH]

    @property
    def public_url(self) -> str:
        """The address of the gateway as its clients see it, without a trailing slash."""
        return self.snapshot.config.server.public_url or f"{self.origin.protocol}://{self.origin.host}"

    async def get_memberships(self) -> list[Membership]:
        """The visitor's teams. What a team leaves to the configuration is filled in."""
        found: list[Membership] = await self.run_database(self.services.accounts.members.list_of_user, self.user.id)
        allowed = self.snapshot.config.accounts.personal_keys
        return [
            replace(one, team=replace(one.team, personal_keys=allowed)) if one.team.personal_keys is None else one
            for one in found
        ]

    def make_actor(self) -> Actor:
        """The visitor, for the audit log."""
        user = self.user
        return Actor(
            id=user.id, name=user.email, role=user.role, address=self.origin.address, request_id=self.request_id
        )

    # Cookies

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the gateway by https: conf says so, or the connection or a trusted proxy does."""
        public_url = self.snapshot.config.server.public_url
        return self.origin.protocol == "https" or urlsplit(public_url).scheme == "https"

    @overload
    def get_cookie(self, name: str, default: str) -> str: ...

    @overload
    def get_cookie(self, name: str, default: None = None) -> str | None: ...

    def get_cookie(self, name: str, default: str | None = None) -> str | None:
        """The value of a cookie by its whole name; `default` also if the request has two. Tornado calls it for its token."""
        value = find_cookie(self.request.headers.get_list("Cookie"), name)
        return default if value is None else value

    def read_cookie(self, name: str) -> str:
        """The value of one of the console's cookies; "" if there is none."""
        return self.get_cookie(make_cookie_name(name, secure=self.is_secure)) or ""

    def set_private_cookie(self, name: str, value: str, *, seconds: float | None = None) -> None:
        """Set a cookie for the console only, which scripts cannot read."""
        secure = self.is_secure
        max_age = None if seconds is None else int(seconds)
        self.set_cookie(make_cookie_name(name, secure=secure), value, max_age=max_age, **make_protection(secure=secure))

    def drop_cookie(self, name: str) -> None:
        """Delete one of the console's cookies. A browser ignores it without the attributes that the prefix demands."""
        secure = self.is_secure
        self.clear_cookie(make_cookie_name(name, secure=secure), **make_protection(secure=secure))

    def start_session(self, cookie: str) -> None:
        """Give the browser a new session."""
        self.set_private_cookie(SESSION_COOKIE, cookie, seconds=self.snapshot.config.console.session_seconds)

    def drop_session(self) -> None:
        self.drop_cookie(SESSION_COOKIE)

    # Forms

    def get_field(self, name: str, default: str = "") -> str:
        """A field of the form, without surrounding spaces. A field that is not UTF-8 is a 400."""
        return self.get_body_argument(name, default, strip=True)

    def get_next(self) -> str:
        """The page of the console to go to after signing in; never one of another site."""
        return check_next(self.get_argument("next", HOME))

    async def run_database(self, function: Any, *given: Any, **named: Any) -> Any:
        """The result of a function that uses the database. Raises Unavailable."""
        try:
            return await self.services.database.run(function, *given, **named)
        except DatabaseError as error:
            raise Unavailable("The database cannot be used now. Try again later.") from error

    async def run_slowly(self, function: Any, *given: Any, **named: Any) -> Any:
        """As `run_database`, for functions of accounts that hash passwords: in threads that delay nobody else."""
        try:
            return await self.services.accounts.run(function, *given, **named)
        except DatabaseError as error:
            raise Unavailable("The database cannot be used now. Try again later.") from error

    # Answers

    @property
    def settings(self) -> dict[str, Any]:
        """Tornado's settings; the cookie with the token of forms is protected as the session's."""
        secure = self.is_secure
        return {
            **self.application.settings,
            "xsrf_cookie_name": make_cookie_name(XSRF_COOKIE, secure=secure),
            "xsrf_cookie_kwargs": make_protection(secure=secure),
        }

    def get_template_path(self) -> str:
        return str(Path(__file__).parent / "templates")

    def render_page(self, template: str, *, title: str, status: int = 200, **values: Any) -> None:
        """Send a page. Templates escape every value; `title` is the heading."""
        self.set_status(status)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.render(
            template,
            title=title,
            visitor=self.session.user if self.session else None,
            path=_find_section(self.request.path),
            navigation=NAVIGATION,
            administration=self._list_administration(),
            flash=self.take_flash(),
            asset=get_asset_address,
            version=__version__,
            public_url=self.public_url,
            words=words,
            **values,
        )

    def _list_administration(self) -> Sequence[tuple[str, str]]:
        if self.session and self.session.user.role == "administrator":
            return ADMINISTRATION
        return TEAM_ADMINISTRATION if self.manages_teams else ()

    def flash(self, text: str, kind: Literal["done", "warning"] = "done") -> None:
        """Show a message on the next page."""
        encoded = base64.urlsafe_b64encode(json.dumps([kind, text[:1000]]).encode()).decode()
        self.set_private_cookie(FLASH_COOKIE, encoded, seconds=60)

    def take_flash(self) -> tuple[str, str] | None:
        """The message that `flash` has left: (kind, text)."""
        cookie = self.read_cookie(FLASH_COOKIE)
        if not cookie:
            return None
        self.drop_cookie(FLASH_COOKIE)
        try:
            kind, text = json.loads(base64.urlsafe_b64decode(cookie))
        except ValueError:
            return None
        return (kind, text) if kind in ("done", "warning") and isinstance(text, str) else None

    def fail(self, error: GateError) -> None:
        """Send an error as a page, or as JSON to a script of the console."""
        if "text/html" not in self.request.headers.get("Accept", "text/html"):
            super().fail(error)
            return
        self.clear()
        self.error_code = error.code
        for name, value in error.headers.items():
            self.set_header(name, value)
        self.render_page(
            "error.html", title=_TITLES.get(error.status, "Error"), status=error.status, message=error.message
        )

    def write_error(self, status_code: int, **details: Any) -> None:
        error = details.get("exc_info", (None, None, None))[1]
        if isinstance(error, AccountError):
            details["exc_info"] = (None, NotAllowed(error.message), None)
        elif isinstance(error, HTTPError) and status_code == 403:
            message = "This form has expired, or comes from another site. Open the page again and repeat."
            details["exc_info"] = (None, NotAllowed(message), None)
        super().write_error(status_code, **details)


def _find_section(path: str) -> str:
    """The address in the navigation to which a page belongs, "" for none."""
    addresses = [address for address, _ in (*NAVIGATION[1:], *ADMINISTRATION)]
    found = next((one for one in addresses if path == one or path.startswith(one + "/")), "")
    return found or (HOME if path.rstrip("/") == HOME.rstrip("/") else "")


def check_next(wanted: str) -> str:
    """The address of a page to go to, if it is one of the console, else the first page."""
    is_ours = wanted.startswith(HOME) and "\\" not in wanted and wanted.isprintable()
    return wanted if is_ours else HOME


_TITLES = {
    400: "Invalid request",
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed",
    429: "Too many attempts",
    503: "Not available",
}
