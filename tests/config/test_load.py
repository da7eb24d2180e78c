"""From a sound file to a Config; what is off; what one key says of another."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from ipaddress import ip_network
from operator import getitem
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from yaml import safe_dump, safe_load

from tests.config.support import Conf
from tornado_gate import config
from tornado_gate.config import FileFaults, KeyEntry, ModelEntry, ModelTarget
from tornado_gate.config.model import Config, Secret
from tornado_gate.config.schema import FileSchema, KeySchema, ModelSchema, ProviderSchema, ServerSchema, TargetSchema
from tornado_gate.types import ResponseRules, Timeouts

SHIPPED = Path(__file__).parents[2] / "conf" / "gate.yaml"

WHOLE = """\
server:
  host: 0.0.0.0
  port: 0
  processes: 4
  data_dir: /srv/gate
  public_url: https://gate.example/
  trusted_proxies: [10.0.0.0/8, "fd00::/8"]
  metrics_host: 10.0.0.9
  metrics_port: 9090
  metrics_token: ${DEV_KEY}
  access_log: off
  log_level: debug
  log_format: text
  drain_seconds: 0
  hook_seconds: 1
  keep_alive_seconds: 2.5
  loop: asyncio
  http: tornado
plugins: {one: true, two: false, format-gemini: false}
providers:
  a:
    plugin: one
    base_url: https://upstream.example/v1//
    api_key: ${API_KEY}
    headers: {X-Team: red}
    timeouts: {connect: 1, total: 30}
    organization: ${ORGANIZATION}
    nested: {list: [1, true]}
  b: {plugin: two}
  c: {plugin: format-openai}
models:
  plain: {provider: a}
  renamed: {provider: a, model: upstream-name}
  "open/*": {provider: c}
  "off/*": {provider: b}
  smart:
    targets:
      - {provider: a, model: x, weight: 3}
      - {provider: b, model: y}
      - {provider: c}
    fallback: [gone, plain]
    operations: [chat, models]
    timeouts: {gap: 5}
    version: "2"
    display_name: Smart
    description: Two of them.
    input_token_limit: 1000
    output_token_limit: 100
    image_family: two
  gone: {provider: b}
keys:
  - {name: empty, key: "${NO_KEY:-}"}
  - {name: dev, key: "${DEV_KEY}"}
  - name: ci
    key: ci-key-0123456789
    account: team
    models: ["plain*", "open/x-*"]
    role: administrator
    operations: [chat]
    requests_per_minute: 60
    tokens_per_minute: 1000
limits: {requests_per_minute: 600, tokens_per_minute: null, body_bytes: 1024}
circuits: {failures: 2, open_seconds: 1}
defaults: {chat: plain, images: open/image, moderation: off/some}
dialect: contract
responses: {store: ask, seconds: 2592000}
"""
ENVIRONMENT = {"API_KEY": "canary-api", "ORGANIZATION": "canary-org", "DEV_KEY": "canary-dev-0123456789"}


@pytest.fixture
def whole(conf: Conf) -> Config:
    return conf.load(WHOLE, ENVIRONMENT)


def test_server_holds_what_the_file_says(whole: Config) -> None:
    assert whole.server == config.ServerConfig(
        host="0.0.0.0",
        port=0,
        processes=4,
        data_dir=Path("/srv/gate"),
        public_url="https://gate.example",
        trusted_proxies=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")),
        metrics_host="10.0.0.9",
        metrics_port=9090,
        metrics_token=Secret("canary-dev-0123456789"),
        access_log=False,
        log_level="debug",
        log_format="text",
        drain_seconds=0.0,
        hook_seconds=1.0,
        keep_alive_seconds=2.5,
        loop="asyncio",
        http="tornado",
    )


def test_provider_keeps_the_keys_of_its_plugin_as_settings(whole: Config) -> None:
    provider = whole.providers["a"]
    assert (provider.plugin, provider.base_url, provider.api_key) == (
        "one",
        "https://upstream.example/v1",
        "canary-api",
    )
    assert provider.headers == {"X-Team": "red"}
    assert provider.timeouts == Timeouts(connect=1.0, total=30.0)
    assert provider.settings == {"organization": "canary-org", "nested": {"list": [1, True]}}


def test_model_has_targets_fallback_and_facts(whole: Config) -> None:
    assert whole.models["plain"].targets == (ModelTarget(provider="a"),)
    assert whole.models["renamed"].targets == (ModelTarget(provider="a", model="upstream-name"),)
    assert whole.models["smart"] == ModelEntry(
        name="smart",
        targets=(ModelTarget(provider="a", model="x", weight=3), ModelTarget(provider="c")),
        fallback=("plain",),
        operations=frozenset({"chat", "models"}),
        timeouts={"gap": 5.0},
        facts={
            "version": "2",
            "display_name": "Smart",
            "description": "Two of them.",
            "input_token_limit": 1000,
            "output_token_limit": 100,
            "image_family": "two",
        },
    )


def test_empty_key_is_no_key_and_accounts_default_to_names(whole: Config) -> None:
    assert whole.keys == (
        KeyEntry(name="dev", key=Secret("canary-dev-0123456789"), account="dev", index=1),
        KeyEntry(
            name="ci",
            key=Secret("ci-key-0123456789"),
            account="team",
            models=("plain*", "open/x-*"),
            operations=("chat",),
            requests_per_minute=60,
            tokens_per_minute=1000,
            role="administrator",
            index=2,
        ),
    )


def test_limits_circuits_and_dialect_are_read(whole: Config) -> None:
    assert whole.limits == config.LimitsConfig(requests_per_minute=600, body_bytes=1024)
    assert whole.circuits == config.CircuitsConfig(failures=2, open_seconds=1.0)
    assert whole.dialect == "contract"
    assert whole.responses == ResponseRules(store="ask", seconds=2592000.0)


def test_what_is_off_with_a_plugin_is_left_out_and_listed(whole: Config) -> None:
    assert list(whole.providers) == ["a", "c"]
    assert list(whole.models) == ["plain", "renamed", "open/*", "smart"]
    assert whole.defaults == {"chat": "plain", "images": "open/image"}
    assert dict(whole.inactive) == {
        ("providers", "b"): "its plugin 'two' is off",
        ("models", "off/*"): "the plugin of its provider 'b' is off",
        ("models", "smart", "targets", 1): "the plugin of its provider 'b' is off",
        ("models", "gone"): "the plugin of its provider 'b' is off",
        ("models", "smart", "fallback", 0): "the model 'gone' is off",
        ("defaults", "moderation"): "the model 'off/some' is off",
    }


def test_plugin_that_is_not_named_is_off_and_a_near_name_is_suggested(conf: Conf) -> None:
    loaded = conf.load("plugins: {openai: true}\nproviders: {a: {plugin: opnai}, b: {plugin: format-openai}}\n")
    assert loaded.inactive == (
        (("providers", "a"), "its plugin 'opnai' is not named under plugins, so it is off; did you mean 'openai'?"),
    )


def test_formats_of_this_repository_can_be_switched_off(conf: Conf) -> None:
    loaded = conf.load("plugins: {format-openai: false}\nproviders: {b: {plugin: format-openai}}\n")
    assert not loaded.providers


def test_secrets_are_never_in_the_repr(whole: Config) -> None:
    assert "canary" not in repr(whole)
    assert "ci-key" not in repr(whole)
    assert "red" not in repr(whole.providers["a"].headers)


def test_secrets_are_never_in_faults(conf: Conf) -> None:
    text = (
        WHOLE.replace("dev, key:", "ci, key:")
        .replace("ci-key-0123456789", "${DEV_KEY}")
        .replace("contract", "${API_KEY}")
    )
    report = "\n".join(conf.report(text, ENVIRONMENT))
    assert "is the same key as keys.1" in report
    assert "'ci' is also the name of keys.1" in report
    assert "dialect: must be" in report
    assert "canary" not in report


def test_lines_of_sound_entries_are_kept_for_faults_found_later(whole: Config) -> None:
    assert whole.lines["providers", "a", "organization"] == 27
    assert whole.lines["models", "smart", "targets", 1] == 39


def test_config_can_be_sent_to_another_process(whole: Config) -> None:
    assert pickle.loads(pickle.dumps(whole)) == whole


BASE = "plugins: {p: true}\nproviders: {p: {plugin: p}}\n"
BETWEEN_KEYS = [
    (
        "models: {a: {provider: p, fallback: [b]}, b: {provider: p, fallback: [c]}, c: {provider: p, fallback: [b]}}",
        "models.c.fallback.0: forms a loop: b -> c -> b; remove one of these fallbacks",
    ),
    (
        "models: {a: {provider: p, fallback: ['x/*']}, 'x/*': {provider: p}}",
        "models.a.fallback.0: 'x/*' matches many models; name one model without *",
    ),
    (
        "models: {a: {provider: p, targets: [{provider: p}]}}",
        "models.a.provider: cannot be combined with targets; remove one of the two",
    ),
    (
        "models: {a: {model: x, targets: [{provider: p}]}}",
        "models.a.model: cannot be combined with targets; set model in each target",
    ),
    ("models: {a: }", "models.a.provider: is missing; name an entry of providers, or give a list of targets"),
    ("defaults: {chat: a}", "defaults.chat: unknown model 'a'; conf defines none"),
    ("models: {ab: {provider: p}}\ndefaults: {chat: abc}", "defaults.chat: unknown model 'abc'; did you mean 'ab'?"),
    (
        "models: {'x/*': {provider: p}}\ndefaults: {chat: x/*}",
        "defaults.chat: 'x/*' matches many models; name one model without *",
    ),
    ("models: {'x/*': {provider: p}}\ndefaults: {chat: x/}", "defaults.chat: unknown model 'x/'; conf defines none"),
    (
        "server: {metrics_port: 8080}",
        "server.metrics_port: must differ from server.port; remove the key to serve /metrics on server.port",
    ),
]


@pytest.mark.parametrize(("text", "expected"), BETWEEN_KEYS)
def test_keys_that_contradict_each_other_are_named(conf: Conf, text: str, expected: str) -> None:
    (fault,) = conf.report(BASE + text)
    assert fault.partition(": ")[2] == expected


def test_fallbacks_that_meet_again_are_no_loop(conf: Conf) -> None:
    models = "{a: {provider: p, fallback: [b, c]}, b: {provider: p, fallback: [d]}, c: {provider: p, fallback: [d]}"
    assert conf.report(f"{BASE}models: {models}, d: {{provider: p}}}}") == []


def test_long_chain_of_fallbacks_that_closes_is_one_loop(conf: Conf) -> None:
    models = "".join(f"  m{n}: {{provider: p, fallback: [m{(n + 1) % 5000}]}}\n" for n in range(5000))
    (fault,) = conf.report(f"{BASE}models:\n{models}")
    assert "models.m4999.fallback.0: forms a loop: m0 -> m1 -> m2 -> m3 -> m4 -> … -> m4997" in fault


@pytest.mark.qa
def test_ten_thousand_models_load(conf: Conf) -> None:
    models = "".join(f"  m{n}: {{provider: p, model: x{n}}}\n" for n in range(10_000))
    assert len(conf.load(f"{BASE}models:\n{models}").models) == 10_000


@pytest.mark.qa
def test_ten_thousand_faults_are_all_reported(conf: Conf) -> None:
    models = "".join(f"  m{n}: {{provider: p, fallback: [n{n}]}}\n" for n in range(10_000))
    assert len(conf.report(f"{BASE}models:\n{models}")) == 10_000


LOCAL_MODELS = [
    "local-chat",
    "local-embed",
    "local-moderation",
    "text-moderation-latest",
    "text-moderation-stable",
    "local-image-1",
    "local-image-2",
    "local-image-3",
    "local-image-edit",
    "local-tts",
    "local-video",
    "local-realtime",
]


def test_shipped_file_loads_with_nothing_in_the_environment() -> None:
    loaded = config.load(SHIPPED, {})
    assert list(loaded.models) == [*LOCAL_MODELS, "local-talker"]
    assert list(loaded.providers) == ["local", "talker"]
    assert loaded.keys == ()
    assert {path for path, _ in loaded.inactive} == {
        ("providers", "openai"),
        ("models", "gpt-4o"),
        ("models", "openai/*"),
        ("providers", "anthropic"),
        ("models", "claude-*"),
        ("providers", "gemini"),
        ("models", "gemini-*"),
        ("providers", "dashscope"),
        ("models", "qwen-image*"),
        ("providers", "kling"),
        ("models", "kling-*"),
    }


KEYS = {
    "OPENAI_API_KEY": "sk-x",
    "ANTHROPIC_API_KEY": "sk-y",
    "GEMINI_API_KEY": "sk-z",
    "DASHSCOPE_API_KEY": "sk-w",
    "KLING_API_KEY": "access:sk-v",
}


def test_shipped_file_serves_openai_once_the_plugin_is_on(conf: Conf) -> None:
    text = SHIPPED.read_text(encoding="utf-8").replace("openai: false", "openai: true")
    assert conf.report(text) != []
    loaded = conf.load(text, {"OPENAI_API_KEY": "sk-x", "GATE_KEY": "k"})
    assert list(loaded.models) == [*LOCAL_MODELS, "local-talker", "gpt-4o", "openai/*"]
    assert loaded.models["openai/*"].targets == (ModelTarget(provider="openai"),)
    assert loaded.keys[0].name == "dev"


def test_what_the_shipped_file_comments_out_is_sound_too(conf: Conf) -> None:
    text = SHIPPED.read_text(encoding="utf-8").replace(": false  ", ": true  ")
    head, body = text[: text.index("server:")], text[text.index("server:") :]
    lines = [line for line in body.split("\n") if "Any other key" not in line]
    shown = "\n".join(line.replace("# ", "", 1) if line.lstrip().startswith("# ") else line for line in lines)
    loaded = conf.load(head + shown, KEYS | {"CI_KEY": "c"})
    assert loaded.models["claude-*"].targets == (ModelTarget(provider="anthropic", model="claude-*"),)
    assert loaded.models["smart"].fallback == ("local-chat",)
    assert loaded.server.metrics_port == 9090
    assert loaded.defaults["chat"] == "local-chat"
    assert loaded.keys[0].account == "team"


def test_without_a_file_the_local_model_is_served() -> None:
    built_in = config.default_config()
    assert built_in.path is None
    assert built_in.plugins == {"local": True}
    assert built_in.models["local-chat"].targets == (ModelTarget(provider="local"),)


def test_what_is_built_in_is_what_the_shipped_file_serves_locally() -> None:
    built_in, shipped = config.default_config(), config.load(SHIPPED, {})
    assert list(built_in.models) == LOCAL_MODELS
    assert built_in.defaults == shipped.defaults
    for name in LOCAL_MODELS:
        assert built_in.models[name].targets == shipped.models[name].targets
        assert built_in.models[name].facts == shipped.models[name].facts


def test_explicit_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(FileFaults) as caught:
        config.find_conf(str(tmp_path / "none.yaml"))
    assert caught.value.report() == [
        f"{tmp_path}/none.yaml:1: the file does not exist; create it, or name another file"
    ]
    with pytest.raises(FileFaults, match="is a folder"):
        config.find_conf(str(tmp_path))


def test_file_of_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.find_conf(None) is None
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "gate.yaml").touch()
    assert config.find_conf(None) == Path("conf/gate.yaml")
    assert config.find_conf("conf/gate.yaml") == Path("conf/gate.yaml")


SCHEMAS = (FileSchema, ServerSchema, ProviderSchema, ModelSchema, TargetSchema, KeySchema)
KNOWN_KEYS = sorted({key for known in SCHEMAS for key in known().fields} | {"p", "_schema", "store", "database"})
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["${X}", "${", "p", "*"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KNOWN_KEYS) | st.text(), inner, max_size=5)
    ),
    max_leaves=25,
)
FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.qa
@FUZZ
@given(loaded=st.dictionaries(st.sampled_from(KNOWN_KEYS), VALUES, max_size=6), environment=st.none() | st.text())
def test_arbitrary_values_at_arbitrary_keys_give_faults_only(
    conf: Conf, loaded: dict[str, object], environment: str | None
) -> None:
    report = conf.report(safe_dump(loaded), {} if environment is None else {"X": environment})
    assert all(line.startswith("FILE:") and line.isprintable() for line in report)


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value below `value`."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


@FUZZ
@given(place=st.sampled_from(list(places(safe_load(WHOLE)))), value=VALUES)
def test_arbitrary_value_anywhere_in_a_sound_file_gives_faults_only(
    conf: Conf, place: tuple[str | int, ...], value: object
) -> None:
    loaded = safe_load(WHOLE)
    *parents, last = place
    reduce(getitem, parents, loaded)[last] = value
    report = conf.report(safe_dump(loaded), ENVIRONMENT)
    assert "canary" not in "".join(report)


@FUZZ
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_arbitrary_bytes_give_faults_only(conf: Conf, content: bytes) -> None:
    conf.path.write_bytes(content)
    with suppress(FileFaults):
        config.load(conf.path, {})


MODELS = (
    "plugins: {p: true}\nproviders: {p: {plugin: p}}\nmodels:\n  a: {provider: p, model: x-1}\n  w/*: {provider: p}\n"
)


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("a", True), ("a*", True), ("*", True), ("w/*", True), ("w/gpt-*", True), ("*/gpt", True), ("w*", True), ("x-1", True),
        ("A", True), ("models/a", True),
        ("b", False), ("b*", False), ("w", False), ("v/*", False), ("*z", True), ("x-2*", False), ("w/", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["keys.0", "plugins.p"])
def test_a_glob_that_matches_no_model_is_a_fault(conf: Conf, glob: str, found: bool, place: str) -> None:
    text = MODELS + f'keys: [{{name: k, key: key-0123456789abc, models: ["{glob}"]}}]\n'
    if place == "plugins.p":
        text = MODELS.replace("{p: true}", f'{{p: {{models: ["{glob}"]}}}}')
    report = conf.report(text)
    if glob == "w/":
        return  # a wildcard matches one character at least; that a glob ends there is not checked
    assert bool(report) is not found, report
    if not found:
        assert f"{place}.models.0: '{glob}' matches no model" in report[0]


def test_weights_that_are_all_0_are_a_fault(conf: Conf) -> None:
    some = MODELS + "  b: {targets: [{provider: p, weight: 0}, {provider: p, model: y}]}\n"
    assert conf.report(some) == []
    both = MODELS + "  b: {targets: [{provider: p, weight: 0}, {provider: p, model: y, weight: 0}]}\n"
    assert conf.report(both) == [
        "FILE:6: models.b.targets: all weights are 0, so no target gets requests; give one a weight above 0"
    ]


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ("", []),
        ("keys", ["keys"]),
        ("models", ["models"]),
        ("providers, models, keys", ["providers", "models", "keys"]),
        ("plugins", []),
    ],
)
@pytest.mark.parametrize("left", ["", "keys:\n"])
def test_a_section_that_is_gone_is_named_before_a_reload(conf: Conf, lost: str, expected: list[str], left: str) -> None:
    sections = {
        "plugins": "{p: true}", "providers": "{p: {plugin: p}}", "models": "{a: {provider: p}}",
        "keys": "[{name: a, key: key-0123456789abc}]",
    }  # fmt: skip
    running = conf.load("".join(f"{name}: {value}\n" for name, value in sections.items()))
    kept = {name: value for name, value in sections.items() if name not in lost.split(", ")}
    if "models" in kept and "providers" not in kept:
        return
    text = "dialect: auto\n" + "".join(f"{name}: {value}\n" for name, value in kept.items())
    new = conf.load(text + (left if "keys" in lost else ""))
    try:
        config.check_lost_sections(running, new)
        found = []
    except config.FileFaults as error:
        found = [message.split("'")[1] for _, message in error.faults]
        assert f"write '{found[0]}: " in str(error)
    assert found == expected


def test_a_section_that_is_written_as_empty_is_meant_to_be(conf: Conf) -> None:
    running = conf.load(MODELS + "keys: [{name: a, key: key-0123456789abc}]\n")
    config.check_lost_sections(running, conf.load(MODELS + "keys: []\n"))
    config.check_lost_sections(running, conf.load("models: {}\nproviders: {}\nkeys: []\n"))
    config.check_lost_sections(conf.load("models: {}\n"), conf.load("dialect: auto\n"))
