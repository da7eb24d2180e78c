"""Parsing and encoding of wire data: JSON, forms, media types, vectors, ids. No I/O except temporary files."""
