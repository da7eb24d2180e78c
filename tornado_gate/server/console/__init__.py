"""The web console at /console/: server-rendered pages, one stylesheet, one script, nothing from another host."""
