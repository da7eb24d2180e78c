"""Which field of which request reaches which upstream: the tables, the walk over them, and the page made of it."""
