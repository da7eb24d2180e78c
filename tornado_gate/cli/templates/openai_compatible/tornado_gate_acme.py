"""Acme: an OpenAI-compatible API. Source: the page of the vendor's documentation, with its date."""

from typing import ClassVar

from tornado_gate_openai.compatible import OpenAICompatible


class Acme(OpenAICompatible):
    """The facts in which the vendor differs; the docstring of the base class explains each."""

    default_base_url = "https://api.acme.example/v1"
    operations = frozenset({"chat", "embeddings"})
    unsupported = (
        "logit_bias",
        "seed",
    )  # members of bodies that the vendor rejects: removed, and reported to the caller
    renamed: ClassVar = {"max_completion_tokens": "max_tokens"}
