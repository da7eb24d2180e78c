"""The fields of Gemini's routes: the one definition of what a body may hold.

`generate`, `embeddings` and `interactions` have the bodies, `content` contents and parts, `tools` tools, `generation_config`
the settings, `responses` what upstreams return, and `descriptions` the rest of the API description. The server needs all but
`descriptions` at its start, because routes have text maps.
"""

from tornado_gate_gemini.fields.embeddings import EMBEDDINGS, check_embedding
from tornado_gate_gemini.fields.generate import check_count, check_generate, list_references
from tornado_gate_gemini.fields.interactions import INTERACTIONS, check_interaction, list_interaction_references
from tornado_gate_gemini.fields.responses import COUNT, GENERATE

__all__ = [
    "COUNT",
    "EMBEDDINGS",
    "GENERATE",
    "INTERACTIONS",
    "check_count",
    "check_embedding",
    "check_generate",
    "check_interaction",
    "list_interaction_references",
    "list_references",
]
