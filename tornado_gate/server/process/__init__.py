"""The processes of the server: start, listeners, reload, handover, drain and supervision."""
