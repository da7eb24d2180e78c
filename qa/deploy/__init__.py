"""The files of `deploy/`, checked with the tools of their makers: `make check-deploy`.

The tools come from Debian (nginx, caddy, systemd-analyze) and from PyPI. A missing tool is a failure that names its package.
"""
