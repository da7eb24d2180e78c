"""The description of the API: /openapi.json, and pages for people at /docs."""
