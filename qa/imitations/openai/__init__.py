"""A strict imitation of OpenAI's chat completions and responses, and the scenarios that every caller's format is put through.

What it accepts comes from the types of openai-python (`schemas`), from documentation and from error reports (`models.yaml`, and
the sources beside each rule), never from the gateway's own tables.
"""
