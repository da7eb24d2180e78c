"""Values on the wire: JSON, forms, media types, vectors, ids. No I/O beyond temporary files."""
