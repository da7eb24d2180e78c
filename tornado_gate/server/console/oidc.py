"""Sign-in with the identity provider of conf. The browser goes to the provider and comes back with a code."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping

import msgspec

from tornado_gate.accounts.errors import AccountError, TooManyAttempts
from tornado_gate.accounts.identities import IdentityRules
from tornado_gate.accounts.oidc import ATTEMPT_SECONDS, Attempt, OidcError, check_state, start_attempt
from tornado_gate.accounts.throttle import ADDRESS_ATTEMPTS, find_network, make_bound
from tornado_gate.errors import RequestError
from tornado_gate.server.console.base import LOGIN, SESSION_COOKIE, ConsoleHandler, check_next
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.sign_in_pages import OIDC_START, SIGN_UP, PublicPage

log = logging.getLogger(__name__)

CALLBACK = "/console/oidc/callback"
COOKIE = "gate_oidc"
LONGEST_ADDRESS = 1000
LONGEST_TOKEN = 200


class OidcPage(PublicPage):
    """The base of both pages."""

    @property
    def redirect_uri(self) -> str:
        return self.public_url.rstrip("/") + CALLBACK

    def refuse(self, error: AccountError) -> None:
        """Show the sign-in page with the reason. The log has the technical reason, without secrets."""
        reason = error.reason if isinstance(error, OidcError) else error.code
        log.warning("sign-in with the identity provider failed: %s", reason)
        self.flash(translate(error.message), "warning")
        self.redirect(SIGN_UP if error.code == "setup_token_needed" else LOGIN, status=303)


class OidcStartPage(OidcPage):
    """`/console/oidc/start?next=`, for the first account with `&token=`: leads to the provider."""

    async def get(self) -> None:
        token = self.get_query_argument("token", "")[:LONGEST_TOKEN]
        attempt = start_attempt(next=self.get_next()[:LONGEST_ADDRESS], setup_token=token)
        try:
            address = await self.services.identity_provider.begin(attempt, self.redirect_uri)
        except OidcError as error:
            self.refuse(error)
            return
        text = base64.urlsafe_b64encode(msgspec.json.encode(attempt)).decode()
        self.set_private_cookie(COOKIE, text, seconds=ATTEMPT_SECONDS)
        self.redirect(address, status=303)


class OidcCallbackPage(OidcPage):
    """`/console/oidc/callback`: the address to which the provider sends the browser back."""

    async def get(self) -> None:
        parameters = {name: self.get_query_argument(name, "") for name in self.request.query_arguments}
        attempt = self._take_attempt(parameters)
        bound = make_bound(ADDRESS_ATTEMPTS, "oidc", find_network(self.origin.address))
        throttle, accounts = self.services.accounts.throttle, self.services.accounts
        config = self.snapshot.config
        try:
            counted = await self.run_database(throttle.begin, [bound])
            identity = await self.services.identity_provider.finish(attempt, parameters, self.redirect_uri)
            cookie, session = await self.run_database(
                accounts.identities.sign_in,
                identity,
                IdentityRules(policy=config.console.signup, groups=config.oidc.groups if config.oidc else {}),
                setup_token=attempt.setup_token,
                address=self.origin.address,
                agent=self.agent,
                replaces=self.read_cookie(SESSION_COOKIE),
            )
        except TooManyAttempts as error:
            self.set_header("Retry-After", str(error.retry_after))
            self.refuse(error)
            return
        except AccountError as error:
            self.refuse(error)
            return
        await self.run_database(throttle.cancel, counted)
        await self.begin_session(cookie, session.user.id)
        self.redirect(check_next(attempt.next), status=303)

    def _take_attempt(self, parameters: Mapping[str, str]) -> Attempt:
        """Return the attempt that this browser has begun and the provider confirms, only once. Raises RequestError.

        A request without an attempt is refused before it is counted, and the browser keeps its attempt: any web page
        can send such a request.
        """
        try:
            attempt = check_state(self._read_attempt(), parameters)
        except OidcError as error:
            raise RequestError(translate(error.message), code="oidc_state") from error
        self.drop_cookie(COOKIE)
        return attempt

    def _read_attempt(self) -> Attempt | None:
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(self.read_cookie(COOKIE)), type=Attempt)
        except (ValueError, msgspec.DecodeError):
            return None


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(OIDC_START, OidcStartPage), (CALLBACK, OidcCallbackPage)]
