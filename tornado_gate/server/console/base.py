"""The base of the console's pages: session, access, protection against cross-site requests, templates, messages.

A page declares `access`; there is no default. The session is a random value in a cookie, whose digest is in the
database.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any, ClassVar, Literal, overload
from urllib.parse import quote, urlsplit

from tornado.locale import Locale
from tornado.web import HTTPError, RequestHandler

from tornado_gate import __version__
from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.key_rules import list_managed_teams
from tornado_gate.accounts.people import Actor, Membership, Session, User
from tornado_gate.config.stored import StoredConf
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import GateError, MethodNotAllowed, NotAllowed, Unavailable
from tornado_gate.http.forwarded import Origin
from tornado_gate.server.console import words
from tornado_gate.server.console.assets import get_asset_address
from tornado_gate.server.console.cookies import find_cookie, make_cookie_name, make_protection
from tornado_gate.server.console.languages import catalogues
from tornado_gate.server.console.languages.catalogues import mark, translate
from tornado_gate.server.console.languages.loader import get_template
from tornado_gate.server.console.languages.scripts import load_script_messages
from tornado_gate.server.console.vocabulary import name_word
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.server.handlers.common import find_request_origin
from tornado_gate.server.services import Services
from tornado_gate.types.value import replace

HOME = "/console/"
LOGIN = "/console/login"
SESSION_COOKIE = "gate_session"
FLASH_COOKIE = "gate_flash"
LANGUAGE_COOKIE = "gate_language"
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
    (HOME, mark("Home")),
    ("/console/keys", mark("API keys")),
    ("/console/usage", mark("Usage")),
    ("/console/requests", mark("Requests")),
    ("/console/playground", mark("Playground")),
    ("/console/tasks", mark("Tasks")),
    ("/console/account", mark("Account")),
)
ADMINISTRATION = (
    ("/console/models", mark("Models")),
    ("/console/providers", mark("Providers")),
    ("/console/plugins", mark("Plugins")),
    ("/console/users", mark("Users")),
    ("/console/teams", mark("Teams")),
    ("/console/limits", mark("Limits")),
    ("/console/alerts", mark("Alerts")),
    ("/console/audit", mark("Audit log")),
)
ICONS = {
    HOME: "house",
    "/console/keys": "key-round",
    "/console/usage": "chart-column",
    "/console/playground": "square-terminal",
    "/console/tasks": "clapperboard",
    "/console/account": "circle-user",
    "/console/models": "boxes",
    "/console/providers": "plug",
    "/console/plugins": "puzzle",
    "/console/users": "users",
    "/console/teams": "building-2",
    "/console/limits": "gauge",
    "/console/alerts": "bell",
    "/console/requests": "list",
    "/console/audit": "scroll-text",
}
"""The symbols of `static/icons.svg` beside the addresses."""
TEAM_ADMINISTRATION = (("/console/teams", mark("Teams")),)


class ConsoleHandler(GateHandler):
    """A page. `session` is the visitor's session, None on public pages without one."""

    access: ClassVar[Access]
    session: Session | None = None
    manages_teams = False  # whether it is also for administrators of a team, who are members of the gateway

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
        catalogues.use_locale(self.locale)
        if self.request.method not in ("GET", "HEAD"):
            self.check_method()
            self._refuse_other_sites()
            self.check_xsrf_cookie()
        cookie = self.read_cookie(SESSION_COOKIE)
        if cookie:
            self.session = await self.run_database(self.services.accounts.sessions.find_session, cookie)
        if self.access == "public":
            return
        if self.session is None:
            self._lead_to_sign_in()
        elif self.access == "administrator" and self.session.user.role != "administrator":
            raise NotAllowed(translate("This page is for administrators of the gateway. Ask one of them for access."))
        elif self.session.user.role != "administrator":
            memberships = await self.run_database(self.services.accounts.members.list_of_user, self.session.user.id)
            self.manages_teams = bool(list_managed_teams(memberships))

    def check_method(self) -> None:
        """Raise MethodNotAllowed for a method that the page does not have, before its form is checked."""
        method = self.request.method or ""
        allowed = [name for name in self.SUPPORTED_METHODS if self._has_method(name)]
        if method not in allowed:
            raise MethodNotAllowed(method, allowed)

    def _has_method(self, name: str) -> bool:
        return getattr(type(self), name.lower()) is not RequestHandler._unimplemented_method

    def _lead_to_sign_in(self) -> None:
        """Lead to the sign-in page, and from there to this page. The script of the console keeps the texts of a lost form."""
        if self.request.method == "GET":
            self.redirect(f"{LOGIN}?next={quote(self.request.uri or HOME)}")
            return
        self.flash(
            translate("Your session has ended, so the form was not saved. Sign in, then send it again."), "warning"
        )
        page = urlsplit(self.request.headers.get("Referer", ""))
        self.redirect(f"{LOGIN}?next={quote(check_next(page.path))}")

    def _refuse_other_sites(self) -> None:
        """Refuse requests from other sites by the browser's headers. This is a second guard besides the token."""
        origin = self.request.headers.get("Origin")
        site = self.request.headers.get("Sec-Fetch-Site", "same-origin")
        if site not in ("same-origin", "none") or (origin and urlsplit(origin).netloc != self.origin.host):
            raise HTTPError(403, translate("this request comes from another site"))

    # The visitor

    @property
    def user(self) -> User:
        """Return the visitor of a page that is not public."""
        assert self.session is not None
        return self.session.user

    @property
    def origin(self) -> Origin:
        """Return the visitor's IP address, and the scheme and host that the browser used."""
        return find_request_origin(self.request, self.snapshot.config.server)

    @property
    def agent(self) -> str:
        return self.request.headers.get("User-Agent", "")[:MAX_AGENT_LENGTH]

    @property
    def public_url(self) -> str:
        """Return the address of the gateway for its clients, without a trailing slash."""
        return self.snapshot.config.server.public_url or f"{self.origin.protocol}://{self.origin.host}"

    async def get_memberships(self) -> list[Membership]:
        """Return the visitor's teams. Values that a team leaves to the configuration are filled in."""
        memberships: list[Membership] = await self.run_database(
            self.services.accounts.members.list_of_user, self.user.id
        )
        allowed = self.snapshot.config.accounts.personal_keys
        return [
            replace(membership, team=replace(membership.team, personal_keys=allowed))
            if membership.team.personal_keys is None
            else membership
            for membership in memberships
        ]

    def make_actor(self) -> Actor:
        """Return the visitor as an actor for the audit log."""
        user = self.user
        return Actor(
            id=user.id, name=user.email, role=user.role, address=self.origin.address, request_id=self.request_id
        )

    # Cookies

    @property
    def is_secure(self) -> bool:
        """Return whether browsers reach the gateway by https. The source is conf, or the connection, or a trusted proxy."""
        public_url = self.snapshot.config.server.public_url
        return self.origin.protocol == "https" or urlsplit(public_url).scheme == "https"

    @overload
    def get_cookie(self, name: str, default: str) -> str: ...

    @overload
    def get_cookie(self, name: str, default: None = None) -> str | None: ...

    def get_cookie(self, name: str, default: str | None = None) -> str | None:
        """Return the value of a cookie by its full name; `default` even if the request has two. Tornado calls this for
        its token.
        """
        value = find_cookie(self.request.headers.get_list("Cookie"), name)
        return default if value is None else value

    def read_cookie(self, name: str) -> str:
        """Return the value of one of the console's cookies; "" if there is none."""
        return self.get_cookie(make_cookie_name(name, secure=self.is_secure)) or ""

    def set_private_cookie(self, name: str, value: str, *, seconds: float | None = None) -> None:
        """Set a cookie for the console only. Scripts cannot read it."""
        secure = self.is_secure
        max_age = None if seconds is None else int(seconds)
        self.set_cookie(make_cookie_name(name, secure=secure), value, max_age=max_age, **make_protection(secure=secure))

    def drop_cookie(self, name: str) -> None:
        """Delete one of the console's cookies. A browser ignores a deletion without the attributes that the prefix
        requires.
        """
        secure = self.is_secure
        self.clear_cookie(make_cookie_name(name, secure=secure), **make_protection(secure=secure))

    def start_session(self, cookie: str) -> None:
        """Give the browser a new session."""
        self.set_private_cookie(SESSION_COOKIE, cookie, seconds=self.snapshot.config.console.session_seconds)

    def drop_session(self) -> None:
        self.drop_cookie(SESSION_COOKIE)

    # Forms

    def get_field(self, name: str, default: str = "") -> str:
        """Return a field of the form, without surrounding spaces. A field that is not UTF-8 is a 400."""
        return self.get_body_argument(name, default, strip=True)

    def get_next(self) -> str:
        """Return the page of the console to open after signing in, never a page of another site."""
        return check_next(self.get_argument("next", HOME))

    async def run_database(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Return the result of a function that uses the database, with the language of the page. Raises Unavailable."""
        try:
            return await self.services.database.run(copy_context().run, function, *arguments, **named)
        except DatabaseError as error:
            raise Unavailable(translate("The database cannot be used now. Try again later.")) from error

    async def run_slowly(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Return the result as `run_database` does, for functions that hash passwords. They run in separate threads, to
        delay no other work.
        """
        try:
            return await self.services.accounts.run(copy_context().run, function, *arguments, **named)
        except DatabaseError as error:
            raise Unavailable(translate("The database cannot be used now. Try again later.")) from error

    # Responses

    @property
    def settings(self) -> dict[str, Any]:
        """Return Tornado's settings. The cookie with the token of forms has the same protection as the session's."""
        secure = self.is_secure
        return {
            **self.application.settings,
            "xsrf_cookie_name": make_cookie_name(XSRF_COOKIE, secure=secure),
            "xsrf_cookie_kwargs": make_protection(secure=secure),
        }

    def get_user_locale(self) -> Locale | None:
        """Return the language that the visitor has chosen; None leaves it to the browser."""
        language = self.read_cookie(LANGUAGE_COOKIE)
        return catalogues.get_locale(language) if language in catalogues.LANGUAGES else None

    def render_string(self, template_name: str, **values: Any) -> bytes:
        """Return a page in the visitor's language."""
        catalogues.use_locale(self.locale)
        return get_template(template_name, self.locale).generate(**{**self.get_template_namespace(), **values})

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
            icons=ICONS,
            administration=self._list_administration(),
            flash=self.take_flash(),
            rejected=self.services.configuration.rejected if self._is_administrator else None,
            conf_is_stored=isinstance(self.snapshot.config.path, StoredConf),
            asset=get_asset_address,
            version=__version__,
            language=catalogues.get_language(self.locale),
            language_tag=catalogues.get_language_tag(self.locale),
            languages=catalogues.LANGUAGES,
            script_messages=load_script_messages(catalogues.get_language(self.locale)),
            public_url=self.public_url,
            words=words,
            name_word=name_word,
            **values,
        )

    @property
    def _is_administrator(self) -> bool:
        return self.session is not None and self.session.user.role == "administrator"

    def _list_administration(self) -> Sequence[tuple[str, str]]:
        if self._is_administrator:
            return ADMINISTRATION
        return TEAM_ADMINISTRATION if self.manages_teams else ()

    def flash(self, text: str, kind: Literal["done", "warning"] = "done") -> None:
        """Show a message on the next page."""
        encoded = base64.urlsafe_b64encode(json.dumps([kind, text[:1000]]).encode()).decode()
        self.set_private_cookie(FLASH_COOKIE, encoded, seconds=60)

    def take_flash(self) -> tuple[str, str] | None:
        """Return the message that `flash` has left: (kind, text)."""
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
            "error.html",
            title=translate(_TITLES.get(error.status, mark("Error"))),
            status=error.status,
            message=error.message,
        )

    def write_error(self, status_code: int, **details: Any) -> None:
        error = details.get("exc_info", (None, None, None))[1]
        if isinstance(error, AccountError):
            details["exc_info"] = (None, NotAllowed(error.message), None)
        elif isinstance(error, HTTPError) and status_code == 403:
            message = translate("This form has expired, or comes from another site. Open the page again and repeat.")
            details["exc_info"] = (None, NotAllowed(message), None)
        super().write_error(status_code, **details)


def _find_section(path: str) -> str:
    """Return the address in the navigation to which a page belongs, "" for none."""
    addresses = [address for address, _ in (*NAVIGATION[1:], *ADMINISTRATION)]
    section = next((candidate for candidate in addresses if path == candidate or path.startswith(candidate + "/")), "")
    return section or (HOME if path.rstrip("/") == HOME.rstrip("/") else "")


def check_next(address: str) -> str:
    """Return the address if it is a page of the console, else the first page."""
    is_ours = address.startswith(HOME) and "\\" not in address and address.isprintable()
    return address if is_ours else HOME


_TITLES = {
    400: mark("Invalid request"),
    403: mark("Not allowed"),
    404: mark("Not found"),
    405: mark("Not allowed"),
    429: mark("Too many attempts"),
    503: mark("Not available"),
}
