"""Who may do what: users, organisations, teams, sessions and API keys, in the database."""
