"""The web console at /console/: server-rendered pages, one stylesheet, one script, no files from another host."""
