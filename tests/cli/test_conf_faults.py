"""`check` on a hundred faults of conf: the line, the key, the message, the suggestion, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tornado_gate.cli import cli

CONF = """\
server: {port: 8080, log_level: info}
plugins: {local: true, openai: true, anthropic: true, gemini: true, redact: {mark: "***"}, cache: true}
providers:
  local: {plugin: local}
  openai: {plugin: openai, preset: openai, api_key: sk-of-a-test-0123456789}
  claude: {plugin: anthropic, api_key: sk-of-a-test-0123456789}
  gemini: {plugin: gemini, api_key: sk-of-a-test-0123456789}
models:
  local-chat: {provider: local}
  gpt-4o: {provider: openai, fallback: [local-chat]}
  smart: {targets: [{provider: openai, model: gpt-4o}, {provider: claude, model: claude-sonnet-4-5}]}
  "gemini/*": {provider: gemini}
keys:
  - {name: app, key: a-key-of-a-test-0123, models: ["gpt-*"], operations: [chat]}
  - {name: nightly, key: b-key-of-a-test-0123, team: research, budget: {usd_per_day: 5}}
teams: {research: {budget: {usd_per_month: 500}}}
limits: {requests_per_minute: 600}
prices: {"gpt-4o*": {input: 2.5, output: 10}}
defaults: {chat: local-chat}
"""

Row = tuple[int, str, str, str]
"""Line of the change, the text that is replaced, its replacement, and how the fault continues after ``FILE:LINE: ``."""

SUGGESTIONS: list[Row] = [
    (1, "server:", "sever:", "sever: unknown key; did you mean 'server'?"),
    (1, "port", "prot", "server.prot: unknown key; did you mean 'port'?"),
    (1, "port", "Port", "server.Port: unknown key; did you mean 'port'?"),
    (1, "log_level", "loglevel", "server.loglevel: unknown key; did you mean 'log_level'?"),
    (1, "log_level", "log-level", "server.log-level: unknown key; did you mean 'log_level'?"),
    (1, "log_level: info", "requests_per_minute: 5", "server.requests_per_minute: unknown key; 'requests_per_minute' belongs to"),
    (2, "plugins:", "plugin:", "plugin: unknown key; did you mean 'plugins'?"),
    (2, "mark", "marks", "plugins.redact.marks: unknown key; did you mean 'mark'?"),
    (2, 'mark: "***"', "requird: true", "plugins.redact.requird: unknown key; did you mean 'required'?"),
    (2, 'mark: "***"', "model: [gpt-4o]", "plugins.redact.model: unknown key; did you mean 'models'?"),
    (2, "cache: true", "cache: {keep_second: 5}", "plugins.cache.keep_second: unknown key; did you mean 'keep_seconds'?"),
    (3, "providers:", "provider:", "provider: unknown key; did you mean 'providers'?"),
    (4, "plugin:", "pluin:", "providers.local.pluin: unknown key; did you mean 'plugin'?"),
    (4, "plugin:", "Plugin:", "providers.local.Plugin: unknown key; did you mean 'plugin'?"),
    (4, "plugin:", "plug-in:", "providers.local.plug-in: unknown key; did you mean 'plugin'?"),
    (4, "local}", "lcoal}", "providers.local.plugin: unknown plugin 'lcoal'; did you mean 'local'?"),
    (4, "local}", "local, pase_seconds: 1}", "providers.local.pase_seconds: unknown key; did you mean 'pace_seconds'?"),
    (5, "api_key", "apikey", "providers.openai.apikey: unknown key; did you mean 'api_key'?"),
    (5, "api_key", "api-key", "providers.openai.api-key: unknown key; did you mean 'api_key'?"),
    (5, "api_key", "api_ky", "providers.openai.api_ky: unknown key; did you mean 'api_key'?"),
    (5, "api_key", "apiKey", "providers.openai.apiKey: unknown key; did you mean 'api_key'?"),
    (5, "api_key", "API_KEY", "providers.openai.API_KEY: unknown key; did you mean 'api_key'?"),
    (5, "preset: openai", "preset: opena", "providers.openai.preset: unknown preset 'opena'; did you mean 'openai'?"),
    (5, "preset:", "prset:", "providers.openai.prset: unknown key; did you mean 'preset'?"),
    (5, "preset:", "baseurl: x, preset:", "providers.openai.baseurl: unknown key; did you mean 'base_url'?"),
    (5, "preset:", "timeout: 5, preset:", "providers.openai.timeout: unknown key; did you mean 'timeouts'?"),
    (5, "preset:", "timeouts: {totl: 5}, preset:", "providers.openai.timeouts.totl: unknown key; did you mean 'total'?"),
    (5, "preset:", "header: {a: b}, preset:", "providers.openai.header: unknown key; did you mean 'headers'?"),
    (5, "preset:", "model_rule: {}, preset:", "providers.openai.model_rule: unknown key; did you mean 'model_rules'?"),
    (5, "preset:", "limit: {}, preset:", "providers.openai.limit: unknown key; did you mean 'limits'?"),
    (5, "preset:", "helth_check: {path: /m}, preset:", "providers.openai.helth_check: unknown key; did you mean 'health_check'?"),
    (5, "preset:", "concurency: {most: 5}, preset:", "providers.openai.concurency: unknown key; did you mean 'concurrency'?"),
    (6, "api_key", "apikey", "providers.claude.apikey: unknown key; did you mean 'api_key'?"),
    (6, "api_key:", "beta: [a], api_key:", "providers.claude.beta: unknown key; did you mean 'betas'?"),
    (6, "plugin: anthropic", "plugin: antropic", "providers.claude.plugin: unknown plugin 'antropic'; did you mean 'anthropic'?"),
    (7, "api_key", "apikey", "providers.gemini.apikey: unknown key; did you mean 'api_key'?"),
    (8, "models:", "model:", "model: unknown key; did you mean 'models'?"),
    (9, "provider:", "provder:", "models.local-chat.provder: unknown key; did you mean 'provider'?"),
    (9, "local}", "lokal}", "models.local-chat.provider: unknown provider 'lokal'; did you mean 'local'?"),
    (10, "fallback", "fallbacks", "models.gpt-4o.fallbacks: unknown key; did you mean 'fallback'?"),
    (10, "fallback", "fall_back", "models.gpt-4o.fall_back: unknown key; did you mean 'fallback'?"),
    (10, "[local-chat]", "[local-chta]", "models.gpt-4o.fallback.0: unknown model 'local-chta'; did you mean 'local-chat'?"),
    (10, "fallback:", "timeout: 5, fallback:", "models.gpt-4o.timeout: unknown key; did you mean 'timeouts'?"),
    (10, "fallback:", "retry: {}, fallback:", "models.gpt-4o.retry: unknown key; did you mean 'retries'?"),
    (11, "targets:", "target:", "models.smart.target: unknown key; did you mean 'targets'?"),
    (11, "model: gpt-4o}", "model: gpt-4o, wieght: 3}", "models.smart.targets.0.wieght: unknown key; did you mean 'weight'?"),
    (11, "claude, m", "cluade, m", "models.smart.targets.1.provider: unknown provider 'cluade'; did you mean 'cla"),
    (13, "keys:", "key:", "key: unknown key; did you mean 'keys'?"),
    (14, "name:", "nmae:", "keys.0.nmae: unknown key; did you mean 'name'?"),
    (14, "operations", "operation", "keys.0.operation: unknown key; did you mean 'operations'?"),
    (14, "[chat]", "[chatt]", "keys.0.operations.0: unknown operation 'chatt'; did you mean 'chat'?"),
    (14, '["gpt-*"]', '["gpt4-*"]', "keys.0.models.0: 'gpt4-*' matches no model"),
    (15, "team: research", "team: reserch", "keys.1.team: unknown team 'reserch'; did you mean 'research'?"),
    (15, "usd_per_day", "usd_per_dya", "keys.1.budget.usd_per_dya: unknown key; did you mean 'usd_per_day'?"),
    (15, "budget:", "bugdet:", "keys.1.bugdet: unknown key; did you mean 'budget'?"),
    (16, "teams:", "team:", "team: unknown key; did you mean 'teams'?"),
    (16, "budget:", "budgets:", "teams.research.budgets: unknown key; did you mean 'budget'?"),
    (17, "limits:", "limit:", "limit: unknown key; did you mean 'limits'?"),
    (17, "requests_per", "request_per", "limits.request_per_minute: unknown key; did you mean 'requests_per_minute'?"),
    (17, "requests_per_", "requests-per-", "limits.requests-per-minute: unknown key; did you mean 'requests_per_minute'?"),
    (17, "requests_per_minute: 600", "body_bites: 5", "limits.body_bites: unknown key; did you mean 'body_bytes'?"),
    (18, "prices:", "price:", "price: unknown key; did you mean 'prices'?"),
    (18, "input:", "imput:", "prices.gpt-4o*.imput: unknown key; did you mean 'input'?"),
    (18, "output:", "outputs:", "prices.gpt-4o*.outputs: unknown key; did you mean 'output'?"),
    (19, "defaults:", "default:", "default: unknown key; did you mean 'defaults'?"),
    (19, "chat: local-chat", "chta: local-chat", "defaults.chta: unknown operation 'chta'; did you mean 'chat'?"),
    (19, "local-chat}", "local-chats}", "defaults.chat: unknown model 'local-chats'; did you mean 'local-chat'?"),
]  # fmt: skip

VALUES: list[Row] = [
    (1, "8080", "80800", "server.port: must be from 0 to 65535, not 80800"),
    (1, "8080", "'8080'", "server.port: must be an integer, not a string"),
    (1, "8080", "", "server.port: has no value; give it one, or leave the key out"),
    (1, "info", "loud", "server.log_level: must be 'debug', 'info', 'warning' or 'error', not 'loud'"),
    (1, "port: 8080", "host: 0.0.0.0:80", "server.host: must be an IP address or host name without port"),
    (1, "port: 8080", "port: 8080, metrics_port: 8080", "server.metrics_port: must differ from server.port"),
    (1, "port: 8080", "data_dir: ~/var", "server.data_dir: must be a path; for the home folder write ${HOME}, not ~"),
    (1, "port: 8080", 'port: "${GATE_TEST_PORT}"', "server.port: the environment variable GATE_TEST_PORT is not set"),
    (2, "cache: true", "cache: 1", "plugins.cache: must be true, false or a mapping such as"),
    (2, "cache: true", "akme: true", "plugins.akme: this plugin is not installed; installed plugins: "),
    (4, "plugin: local", "", "providers.local.plugin: is missing; name the plugin that serves this provider, such as openai"),
    (4, "{plugin: local}", "local", "providers.local: must be a mapping such as {plugin: openai}, not a string"),
    (5, "preset: openai", "base_url: api.openai.com", "providers.openai.base_url: must be a URL such as https://host.example/v1"),
    (5, "preset: openai, ", "", "providers.openai.base_url: is missing; set the upstream's URL, or a preset"),
    (5, "preset:", "timeouts: {total: 0}, preset:", "providers.openai.timeouts.total: must be more than 0"),
    (5, "preset:", "health_check: {}, preset:", "providers.openai.health_check: must have either path or model"),
    (5, "preset:", "serves: [chat, poems], preset:", "providers.openai.serves"),
    (9, "local-chat:", '"local chat":', "models.local chat: a name must not contain spaces or control characters"),
    (9, "local-chat:", '"l*c*":', "models.l*c*: a model's name may contain one *, not 2"),
    (9, "provider: local", "", "models.local-chat.provider: is missing; name an entry of providers, or give a list of targets"),
    (9, "provider: local", "provider: local, operations: [paint]", "models.local-chat.operations: no target of this model "),
    (9, "provider: local", "provider: local, operations: []", "models.local-chat.operations: must not be empty; leave the key"),
    (10, "[local-chat]", "[gpt-4o]", "models.gpt-4o.fallback.0: forms a loop: gpt-4o -> gpt-4o; remove one of these"),
    (9, "provider: local", "provider: local, strategy: random", "models.local-chat.strategy: must be 'weighted', 'latency', "),
    (10, "[local-chat]", '["gemini/*"]', "models.gpt-4o.fallback.0: 'gemini/*' matches many models; name one model without *"),
    (11, "targets:", "provider: local, targets:", "models.smart.provider: cannot be combined with targets; remove one"),
    (11, "model: gpt-4o}", "model: gpt-4o, weight: -1}", "models.smart.targets.0.weight: must be"),
    (15, "b-key-of-a-test-0123", "a-key-of-a-test-0123", "keys.1.key: is the same key as keys.0; give each entry its own key"),
    (14, "name: app, ", "", "keys.0.name: is missing; give the key a name"),
    (15, "name: nightly", "name: app", "keys.1.name: 'app' is also the name of keys.0; give each key its own name"),
    (14, '["gpt-*"]', "[]", "keys.0.models: must not be empty; leave the key out for all models"),
    (14, "name: app", "name: app, role: boss", "keys.0.role: must be 'member' or 'administrator', not 'boss'"),
    (14, "name: app", "name: app, addresses: [here]", "keys.0.addresses.0: must be"),
    (15, "usd_per_day: 5", "usd_per_day: five", "keys.1.budget.usd_per_day: must be a number"),
    (17, "600", "0", "limits.requests_per_minute: must be 1 or more, not 0"),
    (18, "2.5", "-1", "prices.gpt-4o*.input: must be from 0 to 1000000 US dollars, not -1"),
    (19, "chat: local-chat", 'chat: "gemini/*"', "defaults.chat: 'gemini/*' matches many models; name one model without *"),
]  # fmt: skip

TEXTS: list[Row] = [
    (2, "plugins: {", "\tplugins: {", "is not valid YAML: "),
    (5, "openai:", "local:", "providers.local: occurs twice, first on line 4; remove one of them"),
    (9, "{provider: local}", "{provider: local", "is not valid YAML: "),
    (12, '"gemini/*"', "*gemini", "is not valid YAML: "),
    (14, "a-key-of-a-test-0123", "!secret x", "keys.0.key: tags are not allowed"),
    (
        15,
        "b-key-of-a-test-0123",
        '"${file:nowhere}"',
        "keys.1.key: the file nowhere does not exist; create it, or write",
    ),
]
LATER_LINES = {"is not valid YAML: "}
"""The parser notices some faults on a later line."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "gate.yaml"


def check(file: Path, text: str) -> tuple[int, list[str]]:
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(cli, ["check", "--conf", str(file)], prog_name="tornado-gate")
    return result.exit_code, result.output.splitlines()


def change_line(number: int, old: str, new: str) -> str:
    lines = CONF.splitlines()
    assert old in lines[number - 1], f"line {number} has no {old!r}"
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    return "\n".join(lines) + "\n"


def test_the_file_without_a_fault_is_valid(file: Path) -> None:
    code, lines = check(file, CONF)
    assert (code, lines[-1]) == (0, f"{file}: valid; 4 models, 4 providers")


@pytest.mark.qa
def test_every_fault_is_told_with_its_line_its_key_and_what_was_meant(file: Path) -> None:
    rows = [*SUGGESTIONS, *VALUES, *TEXTS]
    assert len(rows) >= 100
    wrong = []
    for number, old, new, expected in rows:
        code, lines = check(file, change_line(number, old, new))
        place = f"{file}:" if expected in LATER_LINES else f"{file}:{number}: {expected}"
        if code != 1 or not any(line.startswith(place) and expected in line for line in lines):
            wrong.append((number, new, expected, code, lines))
    assert wrong == [], "\n".join(map(str, wrong))
