"""The stores of short-lived state that conf selects, and what the others cost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.gateway import Gateway


def test_the_files_load_nothing_of_the_database() -> None:
    code = (
        "import sys, tornado_gate.server.app\n"
        "from tornado_gate.config import default_config\n"
        "from tornado_gate.server.state_stores import make_state_stores\n"
        "make_state_stores(default_config(), None)\n"
        "print(*(name for name in sys.modules if name.startswith(('tornado_gate.database.state_calls',"
        " 'tornado_gate.database.state_values', 'tornado_gate.database.state_secrets', 'psycopg'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""


@pytest.mark.qa
def test_a_reload_does_not_change_the_store(start_gateway: Callable[..., Gateway]) -> None:
    gateway = start_gateway("dialect: contract\n")
    conf = "database: postgresql://gate@127.0.0.1:9/none\nstate: {store: database}\n"
    (gateway.folder / "gate.yaml").write_text(conf, encoding="utf-8")
    gateway.child.wait_for_line(r"restart the gateway to apply changed settings: state.store")
    gateway.child.wait_for_line(r"configuration 2 is in force")
