"""The fields of the messages routes: the one definition of what a body may hold.

`request` has the bodies, `content` messages and blocks, `tools` tools, `responses` what upstreams return, and `descriptions`
the rest of the API description. The server needs all but `descriptions` at its start, because routes have text maps.
"""

from tornado_gate_anthropic.fields.request import MessagesBodySchema, check_messages_body, list_references
from tornado_gate_anthropic.fields.responses import COUNT, MESSAGES

__all__ = ["COUNT", "MESSAGES", "MessagesBodySchema", "check_messages_body", "list_references"]
