"""Property tests that belong to no single module, and `make fuzz`, which runs all property tests for a stated time."""
