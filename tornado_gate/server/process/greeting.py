"""The lines that the server prints when it serves.

They have its address, and at the first start a key and the page of the first account.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.config.model import Config
from tornado_gate.database.engine import DatabaseError
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.process.listeners import LOOPBACK_OF_ALL

log = logging.getLogger(__name__)

SIGN_UP_PATH = "/console/signup"
RULE = "-" * 72
"""A line around the key, so that it is found between lines of the log."""


def print_greeting(
    say: Callable[[str], None],
    address: str,
    config: Config,
    snapshot: Snapshot,
    keystore: KeyStore,
    create_command: str,
) -> None:
    """Print the address, and secrets that are shown only here: so only on stdout, never in the log.

    When no key exists, create one and print it with a curl command. While there is no account, print a new set-up token.
    """
    try:
        _print_secrets(say, address, config, snapshot, keystore, create_command)
    except DatabaseError as error:
        log.error("no first API key and no set-up token are made: %s", error)
    if config.server.host in LOOPBACK_OF_ALL:
        say("tornado-gate: listening on all interfaces; from other machines, use an address of this one in these links")
    say(f"tornado-gate: serving {address}")
    sys.stdout.flush()


def _print_secrets(
    say: Callable[[str], None],
    address: str,
    config: Config,
    snapshot: Snapshot,
    keystore: KeyStore,
    create_command: str,
) -> None:
    if not config.keys and not keystore.has_keys():
        key, _ = keystore.create("first")
        model = next((entry.name for entry in snapshot.targets.models.list_entries()), "MODEL")
        say(
            f"\n{RULE}\ntornado-gate: this is the first start, so here is an API key. It is shown once; only its hash is kept.\n"
            f"  {key}\nTry it:\n"
            f"  curl {address}/v1/chat/completions -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' "
            f'-d \'{{"model": "{model}", "messages": [{{"role": "user", "content": "Say hello"}}]}}\'\n'
            f"Make more with: {create_command}\n{RULE}\n"
        )
    if config.console.enabled:
        accounts = Accounts(keystore.database, session_seconds=config.console.session_seconds)
        if (token := accounts.setup.make_token()) is not None:
            base = config.server.public_url or address
            say(f"tornado-gate: create the first account at {base}{SIGN_UP_PATH}?token={token}")
