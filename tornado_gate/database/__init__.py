"""The relational database: accounts, keys, usage. One code path for SQLite and PostgreSQL."""
