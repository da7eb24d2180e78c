"""What a stranger without a key can make the gateway compute: no header, target or body costs more than its bytes.

Each text is the worst for a parser that it meets, as long as a head may be. The CPU time of the gateway's process is measured, so
the load of the machine does not matter.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway
from tests.support.variants import vary

LENGTH = 60_000
LIMIT_SECONDS = 0.1
"""CPU time of one request: a plain one takes a millisecond, a quadratic parser of 60 kB half a minute."""
CONF = """
server: {{http: {http}, trusted_proxies: [127.0.0.1], access_log: true}}
cors: {{origins: ["https://app.example"]}}
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models:
  local-chat: {{provider: local}}
  local-video: {{provider: local}}
  local-realtime: {{provider: local}}
keys: [{{name: test, key: test-key-of-costly-heads, addresses: [203.0.113.9]}}]
"""
KEY = "Bearer test-key-of-costly-heads"
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}

LISTS = (
    "a",
    "a,",
    ",",
    " ",
    "\t",
    ", ",
    ";",
    "a;",
    '"',
    '"a',
    '\\"',
    "=",
    "a=",
    "a=a;",
    "a=b,",
    ":",
    "0",
    "09",
    "-",
    "*",
    "%2C",
    "\xff",
)
ADDRESSES = ("for=", "for=1.1.1.1,", "for=127.0.0.1,", 'for="', '"for=a";', "127.0.0.1,", "1.1.1.1,", "::", "[", "%")
HEADERS: dict[str, tuple[str, ...]] = {
    "Forwarded": (*LISTS, *ADDRESSES),
    "X-Forwarded-For": (*LISTS, *ADDRESSES),
    "X-Forwarded-Proto": ("https,", "a", ","),
    "X-Forwarded-Host": ("a.", "a,", "[", ":", "-"),
    "Cookie": (*LISTS, "gate_session=", "gate_xsrf=a;", 'a="', 'a="\\0', "a=b; "),
    "Accept": (*LISTS, "text/html,", "*/*;q=0.", "text/"),
    "Accept-Encoding": ("gzip,", "gzip;q=0,", "a", ","),
    "Accept-Language": ("de,", "de-", "a;q=1,"),
    "Authorization": (*LISTS, "Bearer ", "Bearer", "Basic a"),
    "Range": ("bytes=", "bytes=0-1,", "bytes=-", "0", " ", "-"),
    "If-None-Match": ('"a",', '"', "*", 'W/"', ",", "W/"),
    "If-Modified-Since": ("a", "0", "Mon, ", " ", "01 Jan "),
    "If-Range": ('"', "a"),
    "Content-Type": (
        *LISTS,
        "multipart/form-data; boundary=",
        "application/json;",
        "a/",
        ";a=",
        ';a="',
        "; charset=",
        "/",
    ),
    "Content-Disposition": (";filename*=''", '"'),
    "Origin": ("https://", "a", "a.", ":", "/", "[", "@"),
    "Referer": ("https://", "/", "?"),
    "Sec-WebSocket-Protocol": (
        *LISTS,
        "realtime,",
        "openai-insecure-api-key.",
        "a-insecure-api-key.,",
        "openai-insecure-api-key.a,",
    ),
    "Sec-WebSocket-Extensions": ("permessage-deflate;", "permessage-deflate,", "a;", ",", '"'),
    "Connection": ("close,", "a,", "upgrade,", ",", " "),
    "Host": ("a", "a.", ":", "[", "1:", "]:", "@", "/"),
    "User-Agent": ("Version/", "Version/1", "OpenAI/", "(", " ", "openai", "Mozilla/5.0 (", "ai-sdk-", "a/"),
    "X-Request-Id": ("a", "-", "é"),
    "X-Forwarded-Port": ("4",),
    "X-Api-Key": ("a", " ", "-"),
    "X-Goog-Api-Key": ("a", " "),
    "Idempotency-Key": ("a", " "),
    "Traceparent": ("00-", "a"),
    "Tracestate": ("a=b,", ",", "="),
    "Baggage": ("a=b,", "a=b;"),
    "Access-Control-Request-Headers": ("a,", "a ,", "a , ", "a\t", ",", "a"),
    "Sec-Fetch-Site": ("a",),
    "Anthropic-Version": ("2023-", "0", "-"),
    "Anthropic-Beta": ("a,", ","),
    "X-Stainless-Lang": ("a",),
    "Content-Encoding": ("gzip,", ","),
    "X-Gate-Stream": ("a", ","),
}
PATHS = ("/v1/models", "/console/login", "/media/0.png", "/metrics", "/openapi.json", "/docs")
TARGETS = (
    "/v1/models?{}", "/v1/chat/completions?{}", "/console/login?{}", "/console/{}", "/console/usage?{}", "/media/{}",
    "/videos/{}", "/v1/{}", "/v1/videos/{}", "/v1/engines/{}/embeddings", "/v1beta/models/{}", "/admin/v1/{}", "/docs/{}", "/{}", "http://{}/",
    "http://a{}@b/",
)  # fmt: skip
WORDS = (
    "a", "/", "//", "../", "%2F", "%", "%%", "a&", "a=b&", "&", "=",
    "key=a&", "+", ";", "%F0%9F", ":", "@", "[", ".", "next=/", "\\", "*",
)  # fmt: skip
PROBE = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
FORM = "application/x-www-form-urlencoded"
BODIES = {
    FORM: (b"a", b"a=b&", b"&", b"=", b"%", b"%F0", b"+", b"_xsrf=a&", b"email=a@", b"email=@&password=a&"),
    "multipart/form-data; boundary=x": (
        b"--x\r\n",
        b"--x\r\nA:",
        b"\r\n",
        b"--x\r\nA: a\r\n",
        b"--x\r\nContent-Disposition: form-data;",
    ),
    "multipart/form-data; boundary=" + "-" * 70: (b"-", b"\r\n", b"\r\n-"),
}


@pytest.fixture(scope="module", params=vary("httptools", "tornado"))
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF.format(http=request.param), tmp_path_factory.mktemp("heads"))
    yield started
    started.stop()


class Stranger:
    """Sends requests and measures what each cost the gateway's process."""

    def __init__(self, gateway: Gateway) -> None:
        self._port = int(gateway.url.rpartition(":")[2])
        self._clock = Path(f"/proc/{gateway.child.process.pid}/schedstat")
        self.slow: list[str] = []
        self.statuses: set[int] = set()

    def send(self, row: str, head: str, body: bytes = b"") -> None:
        """Send one request; `row` names it among the slow ones. It must be answered, or its connection closed."""
        seconds = self._measure(head, body)
        if seconds > LIMIT_SECONDS and (seconds := min(seconds, self._measure(head, body))) > LIMIT_SECONDS:
            self.slow.append(f"{row[:150]!r}: {seconds:.2f} s")

    def _measure(self, head: str, body: bytes) -> float:
        before = self._read_clock()
        self.statuses.add(self._exchange(head, body))
        self._exchange(PROBE, b"")  # answered after what follows the answer, such as the line of the access log
        return self._read_clock() - before

    def _read_clock(self) -> float:
        return int(self._clock.read_text().split()[0]) / 1e9

    def _exchange(self, head: str, body: bytes) -> int:
        with socket.create_connection(("127.0.0.1", self._port), timeout=120) as connection:
            try:
                connection.sendall(head.encode("latin-1") + body)
                line = connection.makefile("rb").readline()
            except ConnectionError:  # refused before the whole head was sent
                return 0
        return int(line.split()[1]) if line else 0


def make_head(method: str, target: str, headers: dict[str, str]) -> str:
    lines = {"Host": "localhost", "Connection": "close"} | headers
    return f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"


def fill(unit: str, ending: str = "") -> str:
    return (unit * LENGTH)[: LENGTH - len(ending)] + ending


@pytest.mark.timeout(300)
def test_no_header_costs_more_than_its_length(gateway: Gateway) -> None:
    stranger = Stranger(gateway)
    for name, units in HEADERS.items():
        for index, unit in enumerate(units):
            for path, ending in (("/v1/models", "!"), (PATHS[index % len(PATHS)], "")):
                row = f"{name}: {unit}…{ending} at {path}"
                stranger.send(row, make_head("GET", path, {name: fill(unit, ending)}))
    assert not stranger.slow, "\n".join(stranger.slow)
    assert 401 in stranger.statuses


@pytest.mark.qa
def test_headers_of_handshakes_preflights_and_downloads_cost_no_more_either(gateway: Gateway) -> None:
    stranger = Stranger(gateway)
    for name in ("Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions", "Origin", "Forwarded", "Connection"):
        for unit in HEADERS[name]:
            for path in ("/v1/realtime?model=local-realtime", "/v1/responses"):
                stranger.send(f"{name}: {unit}… at {path}", make_head("GET", path, UPGRADE | {name: fill(unit)}))
    for name in ("Access-Control-Request-Headers", "Origin"):
        for unit in HEADERS[name]:
            asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST", name: fill(unit)}
            stranger.send(f"{name}: {unit}… of a preflight", make_head("OPTIONS", "/v1/chat/completions", asked))
    for name in ("Forwarded", "X-Forwarded-For"):
        for unit in HEADERS[name]:  # with a key that is limited to addresses, from another one
            stranger.send(
                f"{name}: {unit}… with a key", make_head("GET", "/v1/models", {"Authorization": KEY, name: fill(unit)})
            )
    assert not stranger.slow, "\n".join(stranger.slow)


def test_many_headers_of_one_name_cost_no_more_than_their_length(gateway: Gateway) -> None:
    stranger = Stranger(gateway)
    for name in (*HEADERS, "X-Other"):
        for count, length in ((190, 300), (5000, 4)):
            lines = f"{name}: {'a' * length}\r\n" * count
            head = f"GET {PATHS[1]} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}"[:LENGTH].rpartition(
                "\r\n"
            )[0]
            stranger.send(f"{count} headers {name}", head + "\r\n\r\n")
    names = "".join(f"X-{number}-{'a-' * 10}: a\r\n" for number in range(2000))
    stranger.send("many names", f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{names}\r\n")
    stranger.send("one long name", make_head("GET", "/v1/models", {"a-" * 30_000: "a"}))
    assert not stranger.slow, "\n".join(stranger.slow)


@pytest.mark.timeout(300)
def test_no_target_costs_more_than_its_length(gateway: Gateway) -> None:
    stranger = Stranger(gateway)
    for target in TARGETS:
        for word in WORDS:
            stranger.send(f"{target} of {word}…", make_head("GET", target.replace("{}", fill(word)), {}))
    assert not stranger.slow, "\n".join(stranger.slow)


def test_no_form_of_a_stranger_costs_more_than_its_length(gateway: Gateway) -> None:
    stranger = Stranger(gateway)
    for media_type, units in BODIES.items():
        for unit in units:
            body = (unit * LENGTH)[:LENGTH]
            for path in ("/console/login", "/console/signup", "/v1/videos", "/v1/images/edits"):
                headers = {"Content-Type": media_type, "Content-Length": str(LENGTH)}
                stranger.send(f"{media_type} of {unit!r}… at {path}", make_head("POST", path, headers), body)
    assert not stranger.slow, "\n".join(stranger.slow)
