"""HTTP handlers for callers. Handlers call plugins only through the pipeline."""
