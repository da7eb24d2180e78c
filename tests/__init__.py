"""The tests of tornado_gate. A package, so that no stray `tests` of an installed distribution takes its place."""
