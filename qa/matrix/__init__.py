"""Which field of which request reaches which upstream: the tables, the walk that tests them, and the generated pages."""
