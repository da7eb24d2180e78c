"""Guards: the texts of bodies and events, the decisions of guards, and their threads."""
