"""Wire tapes: recordings of single requests, with the bytes of the caller, of the gateway and of the upstream."""
