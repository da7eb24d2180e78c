"""Every key's types and bounds: each fault names the file, the line, the key, what is wrong and what is allowed."""

from __future__ import annotations

import pytest

from tests.config.support import Conf

PROVIDER = "plugins: {p: true}\nproviders: {p: {plugin: p}}\n"
A_PORT = "must be from 0 to 65535, not"
A_STRING = "must be a string, not"
SECONDS = "must be more than 0 and at most 86400 seconds, not"
AN_ADDRESS = "must be a URL such as https://host.example/v1"
A_SWITCH = "must be true, false or a mapping such as {on: true, required: true}, not"
NO_VALUE = "has no value; give it one, or leave the key out"
AN_OPERATION = "must be the name of an operation, such as chat: lower-case letters, digits and _"
ONE_LINE = "must be printable ASCII without line breaks"
A_HEADER = "must be printable ASCII without spaces and line breaks, because it is sent in a header"
A_BUCKET = (
    "must be the address of a bucket such as s3://bucket/prefix, gs://bucket or az://container, without a user, a query or a "
    "fragment; leave it out to keep files below data_dir"
)
AN_OPTION = "an option must be lower-case letters, digits and _, such as region"
A_SIGNING_SECRET = "must have 32 characters or more, equal at all nodes; leave it out for a key in the bucket"
FOR_A_BUCKET = "is for a bucket; set media.store, such as s3://bucket/prefix, or remove the key"
NEEDS_POSTGRESQL = (
    "needs a PostgreSQL database, which all nodes share: set database: postgresql://…, or remove this key, because "
    "the file store has the tasks of one machine"
)

SERVER = [
    ("host: 5", f"{A_STRING} an integer; put quotes around it"),
    ("host: yes", f"{A_STRING} true or false (YAML reads yes, no, on and off as those); put quotes around it"),
    ("host: ''", "must not be empty"),
    (
        "host: 127.0.0.1:80",
        "must be an IP address or host name without port; 0.0.0.0 listens on all interfaces",
    ),
    ("port: '8080'", "must be an integer, not a string"),
    ("port: 80.5", "must be an integer, not a number"),
    ("port: true", "must be an integer, not a boolean"),
    ("port: [80]", "must be an integer, not a list"),
    ("port: {}", "must be an integer, not a mapping"),
    ("port:", NO_VALUE),
    ("port: -1", f"{A_PORT} -1"),
    ("port: 99999", f"{A_PORT} 99999"),
    (f"port: {'9' * 40}", f"{A_PORT} a number above 64 bits"),
    ("processes: -1", "must be from 0 to 1024, not -1"),
    ("processes: many", "must be an integer, not a string"),
    ("data_dir: ~", NO_VALUE),
    ("data_dir: ''", "must not be empty"),
    (f"data_dir: {'x' * 256}", "must be a path of up to 1024 characters, 255 in each name"),
    (f"data_dir: {'x/' * 600}", "must be a path of up to 1024 characters, 255 in each name"),
    ("data_dir: ~/var", "must be a path; for the home folder write ${HOME}, not ~"),
    ('data_dir: "a\\0b"', "must be a path without control characters"),
    ("public_url: host.example", AN_ADDRESS),
    ("public_url: 5", f"{A_STRING} an integer; put quotes around it"),
    ("metrics_port: 70000", f"{A_PORT} 70000"),
    ("metrics_port: off", "must be an integer, not a boolean"),
    ("access_log: 1", "must be true or false, not an integer"),
    ("access_log: 'true'", "must be true or false, not a string"),
    ("log_level: loud", "must be 'debug', 'info', 'warning' or 'error', not 'loud'"),
    ("log_format: xml", "must be 'json' or 'text', not 'xml'"),
    ("loop: trio", "must be 'uvloop' or 'asyncio', not 'trio'"),
    ("http: nginx", "must be 'httptools' or 'tornado', not 'nginx'"),
    ("drain_seconds: -1", "must be from 0 to 86400 seconds, not -1"),
    ("drain_seconds: .nan", "must be from 0 to 86400 seconds, not infinite or NaN"),
    ("drain_seconds: '1'", "must be a number of seconds, or a duration such as 5m, not a string"),
    ("hook_seconds: 0", f"{SECONDS} 0"),
    ("hook_seconds: .inf", f"{SECONDS} infinite or NaN"),
    (f"hook_seconds: {'9' * 400}", f"{SECONDS} a number above 64 bits"),
    ("keep_alive_seconds: 90000", f"{SECONDS} 90000"),
    ("keep_alive_seconds: true", "must be a number of seconds, or a duration such as 5m, not a boolean"),
    ("port: !!int x", "is not a number that can be read; put quotes around text"),
    ("host: !secret x", "tags are not allowed; write the plain value, in quotes if it begins with !"),
]


@pytest.mark.parametrize(("line", "message"), SERVER)
def test_server_key_of_the_wrong_kind_is_named(conf: Conf, line: str, message: str) -> None:
    key = line.partition(":")[0]
    assert conf.report(f"# a comment\nserver:\n  {line}\n")[0] == f"FILE:3: server.{key}: {message}"


TOP = [
    ("server: [1]", "server", "must be a mapping, not a list"),
    ("plugins: [local]", "plugins", "must be a mapping, not a list"),
    ("plugins: {local: 1}", "plugins.local", f"{A_SWITCH} an integer"),
    ("plugins: {local: }", "plugins.local", NO_VALUE),
    ("plugins: {p: [x]}", "plugins.p", f"{A_SWITCH} a list"),
    ("plugins: {p: {on: 1}}", "plugins.p.on", "must be true or false, not an integer"),
    ("plugins: {p: {required: maybe}}", "plugins.p.required", "must be true or false, not a string"),
    ("plugins: {p: {models: []}}", "plugins.p.models", "must not be empty; leave the key out for all models"),
    ("plugins: {p: {keys: all}}", "plugins.p.keys", "must be a list, not a string"),
    ("plugins: {p: {operations: [Chat]}}", "plugins.p.operations.0", AN_OPERATION),
    ("plugins: {'a b': true}", "plugins.a b", "a name must not contain spaces or control characters"),
    ("plugins: {'': true}", "plugins.", "a name must have from 1 to 200 characters"),
    ("providers: local", "providers", "must be a mapping, not a string"),
    (
        "providers: {p: {plugin: openai, shared_objects: [files]}}",
        "providers.p.shared_objects.0",
        "must be 'response', 'item', 'conversation', 'file', 'container', 'vector_store', 'prompt', 'skill', 'audio', 'cache', "
        "'interaction', 'environment', 'credential' or 'all', not 'files'",
    ),
    ("providers: {p: p}", "providers.p", "must be a mapping such as {plugin: openai}, not a string"),
    ("providers: {'a b': {plugin: p}}", "providers.a b", "a name must not contain spaces or control characters"),
    ("models: [a]", "models", "must be a mapping, not a list"),
    ("keys: {name: dev}", "keys", "must be a list, not a mapping"),
    ("keys: [k]", "keys.0", 'must be a mapping such as {name: dev, key: "${GATE_KEY:-}"}, not a string'),
    ("limits: 5", "limits", "must be a mapping, not an integer"),
    ("limits: {body_bytes: 0}", "limits.body_bytes", "must be 1 or more, not 0"),
    ("limits: {body_bytes: 32MiB}", "limits.body_bytes", "must be an integer, not a string"),
    ("limits: {requests_per_minute: 0}", "limits.requests_per_minute", "must be 1 or more, not 0"),
    ("limits: {tokens_per_minute: 1.5}", "limits.tokens_per_minute", "must be an integer, not a number"),
    (
        "limits: {store: mysql://h}",
        "limits.store",
        "must be an address such as redis://host:6379/0 or valkey://host:6379; leave it out to count on this machine",
    ),
    ("responses: {store: always}", "responses.store", "must be 'never', 'ask' or 'default', not 'always'"),
    ("responses: {seconds: 0}", "responses.seconds", "must be more than 0 and at most 31622400 seconds, not 0"),
    (
        "responses: {seconds: 1.0e+9}",
        "responses.seconds",
        "must be more than 0 and at most 31622400 seconds, not 1000000000.0",
    ),
    ("circuits: {failures: 0}", "circuits.failures", "must be 1 or more, not 0"),
    ("circuits: {open_seconds: 0}", "circuits.open_seconds", f"{SECONDS} 0"),
    ("defaults: [a]", "defaults", "must be a mapping, not a list"),
    ("defaults: {Chat: a}", "defaults.Chat", AN_OPERATION),
    ("defaults: {chat: 1}", "defaults.chat", f"{A_STRING} an integer; put quotes around it"),
    ("dialect: french", "dialect", "must be 'contract', 'vendor' or 'auto', not 'french'"),
    ("tasks: {store: redis}", "tasks.store", "must be 'file' or 'database', not 'redis'"),
    ("tasks: {store: database}", "tasks.store", NEEDS_POSTGRESQL),
    ("state: {store: valkey}", "state.store", "must be 'file' or 'database', not 'valkey'"),
    (
        "state: {store: database}",
        "state.store",
        NEEDS_POSTGRESQL.replace("file store has the tasks", "files have the state"),
    ),
    ("media: {store: http://h/b}", "media.store", A_BUCKET),
    ("media: {store: 's3://k:s@b'}", "media.store", A_BUCKET),
    ("media: {store: s3://bucket, endpoint: host}", "media.endpoint", AN_ADDRESS),
    ("media: {store: s3://bucket, options: {Region: a}}", "media.options.Region", AN_OPTION),
    (
        "media: {store: s3://bucket, options: {region: 5}}",
        "media.options.region",
        f"{A_STRING} an integer; put quotes around it",
    ),
    ("media: {store: s3://bucket, secret: short}", "media.secret", A_SIGNING_SECRET),
    ("media: {redirect: true}", "media.redirect", FOR_A_BUCKET),
    ("media: {options: {region: a}}", "media.options", FOR_A_BUCKET),
    ("media: {max_bytes: 0}", "media.max_bytes", "must be 1 or more, not 0"),
    ("media: {seconds: 0}", "media.seconds", "must be more than 0 and at most 86400 seconds, not 0"),
    ("fetch: {allow_networks: [here]}", "fetch.allow_networks.0", "must be a network such as 10.1.0.0/16 or fd00::/8"),
    ("videos: {bounds: {seconds: [9]}}", "videos.bounds.seconds", "must be [minimum, maximum], such as [1, 60]"),
    ("videos: {bounds: {side: [9, 1]}}", "videos.bounds.side", "must be [minimum, maximum], such as [1, 60]"),
    ("limits: {upload_bytes: 0}", "limits.upload_bytes", "must be 1 or more, not 0"),
    ("limits: {bodies_bytes: 0}", "limits.bodies_bytes", "must be 1 or more, not 0"),
]


@pytest.mark.parametrize(("line", "key", "message"), TOP)
def test_section_of_the_wrong_kind_is_named(conf: Conf, line: str, key: str, message: str) -> None:
    assert conf.report(f"\n{line}\n") == [f"FILE:2: {key}: {message}"]


PROVIDERS = [
    ("plugin: 5", "plugin", f"{A_STRING} an integer; put quotes around it"),
    ("plugin: ''", "plugin", "must not be empty"),
    ("base_url: ftp://host.example", "base_url", AN_ADDRESS),
    ("base_url: https://", "base_url", AN_ADDRESS),
    ("base_url: https://h:99999", "base_url", AN_ADDRESS),
    ("base_url: 'https://[x'", "base_url", AN_ADDRESS),
    ("base_url: 'https://h/a b'", "base_url", AN_ADDRESS),
    (
        "base_url: https://h/v1?key=x",
        "base_url",
        "must not contain a query or a fragment, only scheme, host, port and path",
    ),
    (
        "base_url: 'https://h/#x'",
        "base_url",
        "must not contain a query or a fragment, only scheme, host, port and path",
    ),
    ("base_url: https://u:p@h", "base_url", "must not contain a user name or password; put the key into api_key"),
    ("api_key: 12345", "api_key", f"{A_STRING} an integer; put quotes around it"),
    ('api_key: "sk\\r\\nX: y"', "api_key", A_HEADER),
    ("headers: [a]", "headers", "must be a mapping, not a list"),
    ("headers: {X-A: 1}", "headers.X-A", f"{A_STRING} an integer; put quotes around it"),
    ('headers: {X-A: "a\\nb"}', "headers.X-A", ONE_LINE),
    ("headers: {'X A': a}", "headers.X A", "must be the name of a header: letters, digits and -"),
    ("headers: {Host: a}", "headers.Host", "is a connection header, which the gateway sets itself; remove it"),
    ("timeouts: 5", "timeouts", "must be a mapping such as {connect: 5, total: 600}, not an integer"),
    ("timeouts: {connect: 0}", "timeouts.connect", f"{SECONDS} 0"),
    ("timeouts: {first_event: -1}", "timeouts.first_event", f"{SECONDS} -1"),
    ("timeouts: {gap: 5 s.}", "timeouts.gap", "must be a number of seconds, or a duration such as 5m, not a string"),
    ("timeouts: {total: 1.0e+9}", "timeouts.total", f"{SECONDS} 1000000000.0"),
    ("timeouts: {totl: 5}", "timeouts.totl", "unknown key; did you mean 'total'?"),
]


@pytest.mark.parametrize(("line", "key", "message"), PROVIDERS)
def test_provider_key_of_the_wrong_kind_is_named(conf: Conf, line: str, key: str, message: str) -> None:
    plugin = "" if key == "plugin" else "    plugin: p\n"
    text = f"providers:\n  one:\n    {line}\n{plugin}"
    assert conf.report(text) == [f"FILE:3: providers.one.{key}: {message}"]


def test_provider_without_plugin_is_told_to_name_one(conf: Conf) -> None:
    assert conf.report("providers:\n  one: {}\n") == [
        "FILE:2: providers.one.plugin: is missing; name the plugin that serves this provider, such as openai"
    ]


MODELS = [
    ("provider: 5", "provider", f"{A_STRING} an integer; put quotes around it"),
    ("provider: q", "provider", "unknown provider 'q'; allowed: p"),
    ("model: 4", "model", f"{A_STRING} an integer; put quotes around it"),
    (
        "model: 'a-*'",
        "model",
        "contains *, but the model's name does not; write the full upstream name",
    ),
    ("weight: 2", "weight", "unknown key; 'weight' belongs to models.NAME.targets.N"),
    ("targets: p", "targets", "must be a list, not a string"),
    ("targets: []", "targets", "must not be empty; name one target at least, such as "),
    (
        "targets: [p]",
        "targets.0",
        "must be a mapping such as {provider: openai, model: gpt-4o, weight: 1}, not a string",
    ),
    ("targets: [{model: x}]", "targets.0.provider", "is missing; name an entry of providers"),
    ("targets: [{provider: p, weight: -1}]", "targets.0.weight", "must be from 0 to 1000000, not -1"),
    ("targets: [{provider: p, weight: 0}]", "targets", "all weights are 0, so no target gets requests"),
    ("targets: [{provider: p, weight: 1.5}]", "targets.0.weight", "must be an integer, not a number"),
    ("targets: [{provider: pp}]", "targets.0.provider", "unknown provider 'pp'; did you mean 'p'?"),
    ("targets: [{provider: p, wait: 1}]", "targets.0.wait", "unknown key; did you mean 'weight'?"),
    ("fallback: m", "fallback", "must be a list, not a string"),
    ("fallback: [5]", "fallback.0", f"{A_STRING} an integer; put quotes around it"),
    ("fallback: [mm]", "fallback.0", "unknown model 'mm'; did you mean 'm'?"),
    ("fallback: [m]", "fallback.0", "forms a loop: m -> m; remove one of these fallbacks"),
    ("operations: chat", "operations", "must be a list, not a string"),
    ("operations: []", "operations", "must not be empty; leave the key out for all of the plugin's"),
    ("operations: [Chat!]", "operations.0", AN_OPERATION),
    ("timeouts: {gap: 0}", "timeouts.gap", f"{SECONDS} 0"),
    ("version: 1.0", "version", f"{A_STRING} a number; put quotes around it"),
    ("display_name: no", "display_name", f"{A_STRING} true or false"),
    ("description: [a]", "description", f"{A_STRING} a list"),
    ("input_token_limit: 0", "input_token_limit", "must be 1 or more, not 0"),
    ("output_token_limit: 8k", "output_token_limit", "must be an integer, not a string"),
    ("image_family: four", "image_family", "must be 'one', 'two' or 'three', not 'four'"),
    ("image_family: 1", "image_family", f"{A_STRING} an integer; put quotes around it"),
]


@pytest.mark.parametrize(("line", "key", "message"), MODELS)
def test_model_key_of_the_wrong_kind_is_named(conf: Conf, line: str, key: str, message: str) -> None:
    provider = "" if line.startswith(("provider", "targets")) else "    provider: p\n"
    report = conf.report(f"{PROVIDER}models:\n  m:\n    {line}\n{provider}")
    assert len(report) == 1
    assert report[0].startswith(f"FILE:5: models.m.{key}: {message}")


NAMES = [
    ("'*a*'", "a model's name may contain one *, not 2"),
    ("'a b'", "a name must not contain spaces or control characters"),
    ("''", "a name must have from 1 to 200 characters"),
    ("x" * 201, "a name must have from 1 to 200 characters"),
]


@pytest.mark.parametrize(("name", "message"), NAMES)
def test_model_name_that_cannot_be_is_refused(conf: Conf, name: str, message: str) -> None:
    (line,) = conf.report(f"{PROVIDER}models:\n  {name}: {{provider: p}}\n")
    assert line.startswith("FILE:4: models.")
    assert line.endswith(message)


KEYS = [
    ("name: 5", "name", f"{A_STRING} an integer; put quotes around it"),
    ("name: a b", "name", "a name must not contain spaces or control characters"),
    ("key: 12345", "key", f"{A_STRING} an integer; put quotes around it"),
    ("key: yes", "key", f"{A_STRING} true or false (YAML reads yes, no, on and off as those); put quotes around it"),
    ("key:", "key", NO_VALUE),
    ('key: "a\\nb"', "key", A_HEADER),
    ("key: schlüssel", "key", A_HEADER),
    ("account: ''", "account", "must not be empty"),
    ("models: local-*", "models", "must be a list, not a string"),
    ("models: []", "models", "must not be empty; leave the key out for all models"),
    ("models:", "models", "must not be empty; leave the key out for all models"),
    ("models: [1]", "models.0", f"{A_STRING} an integer; put quotes around it"),
    ("operations: [1]", "operations.0", f"{A_STRING} an integer; put quotes around it"),
    ("operations:", "operations", "must not be empty; leave the key out for all operations"),
    ("requests_per_minute: 0", "requests_per_minute", "must be 1 or more, not 0"),
    ("tokens_per_minute: -1", "tokens_per_minute", "must be 1 or more, not -1"),
    ("modles: [a]", "modles", "unknown key; did you mean 'models'?"),
]


@pytest.mark.parametrize(("line", "key", "message"), KEYS)
def test_key_entry_of_the_wrong_kind_is_named(conf: Conf, line: str, key: str, message: str) -> None:
    rest = "".join(f"    {name}: x\n" for name in ("name", "key") if name != key)
    assert conf.report(f"keys:\n  - {line}\n{rest}") == [f"FILE:2: keys.0.{key}: {message}"]


def test_missing_key_has_the_line_of_its_parent(conf: Conf) -> None:
    assert conf.report("\nkeys:\n\n  - {key: x}\n  - {name: x}\n") == [
        "FILE:4: keys.0.name: is missing; give the key a name",
        'FILE:5: keys.1.key: is missing; write "${VAR:-}" to read it from the environment (empty: no key)',
    ]


SUGGESTIONS = [
    ("server: {prot: 1}", "server.prot: unknown key; did you mean 'port'?"),
    ("sever: {}", "sever: unknown key; did you mean 'server'?"),
    ("limits: {body_byte: 1}", "limits.body_byte: unknown key; did you mean 'body_bytes'?"),
    ("circuits: {zzz: 1}", "circuits.zzz: unknown key; allowed: failure_share, failures, limited_key_seconds"),
    ("server: {_schema: 1}", "server._schema: unknown key; allowed: "),
    ("server: {api_key: x}", "server.api_key: unknown key; 'api_key' belongs to providers.NAME"),
    ("server: {models: x}", "server.models: unknown key; 'models' belongs to the top level, keys.N, plugins.NAME"),
    ("limits: {origins: x}", "limits.origins: unknown key; 'origins' belongs to cors, realtime"),
    ("media: {fallbck: x}", "media.fallbck: unknown key; did you mean 'fallback', which belongs to models.NAME?"),
    ("fetch: {dialct: x}", "fetch.dialct: unknown key; did you mean 'dialect', which belongs to the top level?"),
    (
        "keys: [{name: a, key: b, model: x}]",
        "keys.0.model: unknown key; did you mean 'models'? 'model' belongs to models.NAME",
    ),
]


@pytest.mark.parametrize(("line", "expected"), SUGGESTIONS)
def test_unknown_key_gets_a_suggestion(conf: Conf, line: str, expected: str) -> None:
    (fault,) = conf.report(line)
    assert fault.startswith(f"FILE:1: {expected}")


def test_every_fault_is_found_at_once_in_the_order_of_the_file(conf: Conf) -> None:
    text = """\
server:
  prot: 1
  port: 99999
providers:
  p: {plugin: 5, base_url: x}
models:
  a: {provider: q, fallback: [zebra]}
  b: {targets: [{provider: p, weight: -1}, {provider: r}]}
keys:
  - {name: x, key: same}
  - {name: x, key: same, account: 3}
defaults: {chat: zebra}
"""
    places = [tuple(line.split(": ")[:2]) for line in conf.report(text)]
    assert places == [
        ("FILE:2", "server.prot"),
        ("FILE:3", "server.port"),
        ("FILE:5", "providers.p.base_url"),
        ("FILE:5", "providers.p.plugin"),
        ("FILE:7", "models.a.fallback.0"),
        ("FILE:7", "models.a.provider"),
        ("FILE:8", "models.b.targets.0.weight"),
        ("FILE:8", "models.b.targets.1.provider"),
        ("FILE:11", "keys.1.account"),
        ("FILE:11", "keys.1.key"),
        ("FILE:11", "keys.1.name"),
        ("FILE:12", "defaults.chat"),
    ]


def test_fault_that_only_follows_from_another_is_not_reported(conf: Conf) -> None:
    assert conf.report("providers: [p]\nmodels:\n  a: {provider: p}\n  b: nope\n") == [
        "FILE:1: providers: must be a mapping, not a list",
        "FILE:4: models.b: must be a mapping such as {provider: openai}, not a string",
    ]
