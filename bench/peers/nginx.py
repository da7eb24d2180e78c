"""nginx as a reverse proxy with connection reuse, if it is installed: it is not in the package indexes of Python or npm."""

from __future__ import annotations

from bench.side import SideFacts

# A worker that root starts runs as nobody and cannot write $folder: a body must fit its buffer.
CONF = """
daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid $folder/pid; error_log $folder/error.log;
events { worker_connections 10000; }
http {
  access_log off; keepalive_requests 1000000; client_body_temp_path $folder/body; proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/f; uwsgi_temp_path $folder/u; scgi_temp_path $folder/s; client_max_body_size 64m;
  client_body_buffer_size 1m;
  upstream mock { server 127.0.0.1:$upstream; keepalive 128; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:$port backlog=8192;
    location / {
      proxy_pass http://mock; proxy_http_version 1.1; proxy_buffering off; proxy_set_header Connection "";
    }
  }
}
"""

FACTS = SideFacts(
    name="nginx",
    title="nginx",
    work="passes bytes on",
    version=("nginx", "-v"),
    command=("nginx", "-p", "$folder", "-c", "$folder/nginx.conf"),
    files={"nginx.conf": CONF},
)
