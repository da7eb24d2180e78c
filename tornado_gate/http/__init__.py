"""HTTP towards providers: base URLs, and what a failed exchange means to the caller."""
