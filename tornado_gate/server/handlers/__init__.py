"""HTTP on the caller's side. Handlers reach plugins only through the pipeline."""
