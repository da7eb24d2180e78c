"""Every regular expression of the core and the first-party plugins, with its worst texts: `python -m qa.patterns`."""
