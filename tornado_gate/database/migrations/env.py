"""The environment of alembic. It applies migrations on the connection that `database.migrate` has opened, in its
transaction.
"""

from alembic import context

from tornado_gate.database import alert_tables, task_tables, usage_tables  # noqa: F401  their tables belong to METADATA
from tornado_gate.database.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
