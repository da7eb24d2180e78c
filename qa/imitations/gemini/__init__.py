"""A strict imitation of Gemini's generateContent API, and the requests of all callers that the gateway translates to it."""
