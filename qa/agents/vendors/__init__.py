"""One module for each wire format of an upstream. All have the same functions.

``read(path, headers, body) -> Asked`` refuses what the vendor refuses (RefusedError);
``render(model, turn, stream) -> (content type, chunks)``; ``render_error(status, message) -> bytes``.
"""
