"""People and their permissions in the database: users, organisations, teams, sessions and API keys."""
