"""A strict imitation of Anthropic's Messages API, and the requests of all callers that the gateway translates to it."""
