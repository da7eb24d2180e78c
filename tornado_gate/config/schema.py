"""The keys of conf/gate.yaml with their types and bounds. Checks between keys are in checks.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from marshmallow import INCLUDE, Schema, ValidationError, fields
from marshmallow.types import UnknownOption

from tornado_gate.config import values
from tornado_gate.config.alert_keys import AlertsSchema
from tornado_gate.config.faults import Fault, KeyPath, did_you_mean, flatten_messages
from tornado_gate.config.key_index import KeyIndex
from tornado_gate.config.network_keys import EntryNetworkSchema, NetworkSchema, check_proxy
from tornado_gate.config.oidc import make_auth_field
from tornado_gate.config.price_keys import make_prices_field
from tornado_gate.config.routing_keys import (
    STRATEGIES,
    AffinitySwitch,
    CircuitsSchema,
    HealthCheckSchema,
    RetriesSchema,
)
from tornado_gate.config.tape_keys import TapesSchema
from tornado_gate.config.value_checks import (
    check_address,
    check_bounds,
    check_database,
    check_header_name,
    check_header_value,
    check_host,
    check_key,
    check_limits_store,
    check_media_secret,
    check_media_store,
    check_model_name,
    check_name,
    check_network,
    check_operation,
    check_option_name,
    check_optional_url,
    check_origin,
    check_prefix,
    check_upstream_model,
    check_url,
)
from tornado_gate.config.values import (
    Boolean,
    Integer,
    List,
    Number,
    Seconds,
    SecretString,
    Section,
    String,
    Table,
    check_file_path,
)
from tornado_gate.types.upstream_objects import ALL_KINDS, OBJECT_KINDS

MAX_KEPT_SECONDS = 366 * 24 * 3600
MAX_REVIEW_SECONDS = 300


class TlsSchema(Schema):
    certificate = String(
        required=True,
        validate=check_file_path,
        error_messages={"required": "is missing; name the PEM file of the certificate, followed by its chain"},
    )
    key = String(
        required=True,
        validate=check_file_path,
        error_messages={"required": "is missing; name the PEM file of the certificate's private key"},
    )
    minimum = String(choices=("1.2", "1.3"))


class ServerSchema(Schema):
    host = String(validate=check_host)
    port = Integer(least=0, most=65535)
    processes = Integer(least=0, most=1024)
    data_dir = String(validate=check_file_path)
    public_url = String(empty=True, validate=check_optional_url)
    trusted_proxies = List(String(validate=check_network))
    metrics_host = String(validate=check_host)
    metrics_port = Integer(least=0, most=65535, allow_none=True)
    metrics_token = SecretString(empty=True, validate=check_key)
    access_log = Boolean()
    log_level = String(choices=("debug", "info", "warning", "error"))
    log_format = String(choices=("json", "text"))
    drain_delay = Seconds(zero=True)
    drain_seconds = Seconds(zero=True)
    hook_seconds = Seconds()
    keep_alive_seconds = Seconds()
    stalled_reader_seconds = Seconds()
    max_connections = Integer(least=1, most=1_000_000)
    max_connections_per_address = Integer(least=1, most=1_000_000, allow_none=True)
    loop = String(choices=("uvloop", "asyncio"))
    http = String(choices=("httptools", "tornado"))
    tls = Section(TlsSchema, example="{certificate: tls/fullchain.pem, key: tls/privkey.pem}")


class PluginSchema(Schema):
    """The options of a plugin. Other keys are settings of the plugin, which checks them."""

    class Meta:
        unknown: ClassVar[UnknownOption] = INCLUDE

    on = Boolean()
    distribution = String()
    required = Boolean()
    models = List(String(validate=check_name), least=1, hint="leave the key out for all models")
    operations = List(String(validate=check_operation), least=1, hint="leave the key out for all operations")
    keys = List(String(validate=check_name), least=1, hint="leave the key out for all API keys")
    review_timeout = Seconds(most=MAX_REVIEW_SECONDS)
    review_timeout_per_mb = Seconds(zero=True, most=MAX_REVIEW_SECONDS)


class PluginSwitch(fields.Field[Any]):
    """True, false, or a mapping. The result is always a mapping with ``on``. A mapping is on unless it has ``on: false``."""

    schema = PluginSchema()

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if isinstance(value, dict):
            return {"on": True, **self.schema.load(value)}
        switch = values.boolean_of(value)
        if not isinstance(switch, bool):
            kind = values.describe_type(value)
            raise ValidationError(f"must be true, false or a mapping such as {{on: true, required: true}}, not {kind}")
        return {"on": switch}


class BudgetSchema(Schema):
    usd_per_day = Number(least=0, allow_none=True)
    usd_per_month = Number(least=0, allow_none=True)
    tokens_per_day = Integer(least=1, allow_none=True)
    tokens_per_month = Integer(least=1, allow_none=True)


class BoundsSchema(BudgetSchema):
    """All limits and budgets of a subject that is not a key."""

    requests_per_minute = Integer(least=1, allow_none=True)
    tokens_per_minute = Integer(least=1, allow_none=True)
    concurrent_requests = Integer(least=1, allow_none=True)


def make_bounds_field() -> Section:
    return Section(BoundsSchema, example="{requests_per_minute: 600, usd_per_month: 500}")


class TimeoutsSchema(Schema):
    connect = Seconds()
    first_event = Seconds()
    whole = Seconds()
    gap = Seconds()
    total = Seconds()


class ConcurrencySchema(Schema):
    most = Integer(
        least=1, required=True, error_messages={"required": "is missing; say how many requests may run at a time"}
    )
    queue = Integer(least=0, most=1_000_000)
    wait = Seconds()


class ProviderSchema(EntryNetworkSchema):
    """A provider entry. Other keys are settings of the plugin, which checks them."""

    class Meta:
        unknown: ClassVar[UnknownOption] = INCLUDE

    plugin = String(
        required=True,
        validate=check_name,
        error_messages={"required": "is missing; name the plugin that serves this provider, such as openai"},
    )
    on = Boolean()
    base_url = String(empty=True, validate=check_optional_url)
    api_key = SecretString(empty=True, validate=check_key)
    api_keys = List(SecretString(empty=True, validate=check_key))
    headers = Table(SecretString(empty=True, validate=check_header_value), check_name=check_header_name)
    timeouts = Section(TimeoutsSchema, example="{connect: 5, total: 600}")
    shared_objects = List(String(choices=(*OBJECT_KINDS, ALL_KINDS)))
    prices = make_prices_field()
    price_provider = String(empty=True)
    limits = make_bounds_field()
    health_check = Section(HealthCheckSchema, example="{path: /models, interval: 30}")
    concurrency = Section(ConcurrencySchema, example="{most: 100, queue: 200, wait: 5s}")


class TargetSchema(Schema):
    provider = String(required=True, error_messages={"required": "is missing; name an entry of providers"})
    model = String(validate=check_upstream_model)
    weight = Integer(least=0, most=1_000_000)


class ModelSchema(Schema):
    """``{provider, model}`` for one target, or `targets`."""

    provider = String()
    model = String(validate=check_upstream_model)
    targets = List(
        Section(TargetSchema, example="{provider: openai, model: gpt-4o, weight: 1}"),
        least=1,
        hint="name one target at least, such as {provider: openai, model: gpt-4o, weight: 1}",
    )
    fallback = List(String())
    strategy = String(choices=STRATEGIES)
    affinity = AffinitySwitch()
    operations = List(String(validate=check_operation), least=1, hint="leave the key out for all of the plugin's")
    timeouts = Section(TimeoutsSchema, example="{connect: 5, total: 600}")
    limits = make_bounds_field()
    failover = String(choices=("pre-first-event", "never"))
    retries = Section(RetriesSchema, example="{same_target: 1}")
    version = String()
    display_name = String()
    description = String()
    input_token_limit = Integer(least=1)
    output_token_limit = Integer(least=1)
    image_family = String(choices=("one", "two", "three"))


MODEL_FACTS = ("version", "display_name", "description", "input_token_limit", "output_token_limit", "image_family")


class TeamSchema(Schema):
    """A team, or a user of keys in conf."""

    budget = Section(BudgetSchema, example="{usd_per_month: 500}")
    limits = make_bounds_field()


class KeySchema(Schema):
    """A key entry. An empty `key` disables the entry. Empty lists are invalid, because they look like "none" but mean "all"."""

    name = String(required=True, validate=check_name, error_messages={"required": "is missing; give the key a name"})
    key = SecretString(
        required=True,
        empty=True,
        validate=check_key,
        error_messages={"required": 'is missing; write "${{VAR:-}}" to read it from the environment (empty: no key)'},
    )
    account = String(validate=check_name)
    models = List(String(validate=check_name), least=1, hint="leave the key out for all models")
    operations = List(String(validate=check_operation), least=1, hint="leave the key out for all operations")
    requests_per_minute = Integer(least=1, allow_none=True)
    tokens_per_minute = Integer(least=1, allow_none=True)
    concurrent_requests = Integer(least=1, allow_none=True)
    budget = Section(BudgetSchema, example="{usd_per_day: 5}")
    user = String(validate=check_name)
    team = String(validate=check_name)
    tags = List(String(validate=check_name), least=1, hint="leave the key out for no tags")
    addresses = List(String(validate=check_address), least=1, hint="leave the key out for all addresses")
    role = String(choices=("member", "administrator"))


class LimitsSchema(Schema):
    store = SecretString(empty=True, validate=check_limits_store)
    gateway = make_bounds_field()
    requests_per_minute = Integer(least=1, allow_none=True)
    tokens_per_minute = Integer(least=1, allow_none=True)
    body_bytes = Integer(least=1)
    upload_bytes = Integer(least=1)
    body_values = Integer(least=1)
    body_bytes_per_second = Integer(least=0)
    bodies_bytes = Integer(least=1)
    forms_bytes = Integer(least=1)
    turns_bytes = Integer(least=1)
    answer_bytes = Integer(least=1)
    media_answer_bytes = Integer(least=1)
    stream_bytes = Integer(least=1)
    file_bytes = Integer(least=1)
    event_bytes = Integer(least=1024)
    answers_bytes = Integer(least=1024)
    open_requests = Integer(least=1)
    loop_lag_seconds = Seconds(zero=True)
    memory_bytes = Integer(least=1, allow_none=True)


class MediaSchema(Schema):
    max_bytes = Integer(least=1)
    seconds = Seconds()
    store = String(empty=True, validate=check_media_store)
    endpoint = String(empty=True, validate=check_optional_url)
    options = Table(SecretString(), check_name=check_option_name)
    secret = SecretString(empty=True, validate=check_media_secret)
    redirect = Boolean()
    spool_bytes = Integer(least=1024 * 1024)


class VideoBoundsSchema(Schema):
    seconds = List(Integer(least=1), validate=check_bounds)
    side = List(Integer(least=1), validate=check_bounds)
    fps = List(Integer(least=1), validate=check_bounds)
    n = List(Integer(least=1), validate=check_bounds)


class VideosSchema(Schema):
    concurrency = Integer(least=1, most=1000)
    queued_per_account = Integer(least=1)
    poll_seconds = Seconds()
    task_seconds = Seconds()
    download_seconds = Seconds()
    keep_seconds = Seconds()
    max_bytes = Integer(least=1)
    prefixes = List(String(validate=check_prefix))
    bounds = Section(VideoBoundsSchema, example="{seconds: [1, 60]}")


class TasksSchema(Schema):
    store = String(choices=("file", "database"))


class StateSchema(Schema):
    store = String(choices=("file", "database"))
    max_bytes = Integer(least=64 * 1024 * 1024)


class RealtimeSchema(Schema):
    sessions_per_key = Integer(least=1)
    sessions_per_account = Integer(least=1)
    client_secrets_per_account = Integer(least=1)
    minutes = Integer(least=1, most=24 * 60)
    messages_per_second = Integer(least=1)
    message_bytes = Integer(least=1024, most=16 * 1024 * 1024)
    origins = List(String(validate=check_url))


class CorsSchema(Schema):
    origins = List(String(validate=check_origin))
    seconds = Seconds(zero=True, most=86400)


class ResponsesSchema(Schema):
    store = String(choices=("never", "ask", "default"))
    copies = Boolean()
    seconds = Seconds(most=MAX_KEPT_SECONDS)


class FetchSchema(Schema):
    allow_private = Boolean()
    allow_networks = List(String(validate=check_network))
    max_bytes = Integer(least=1)
    request_bytes = Integer(least=1)
    total_bytes = Integer(least=1)
    seconds = Seconds()
    proxy = SecretString(empty=True, validate=check_proxy)


class ConsoleSchema(Schema):
    enabled = Boolean()
    signup = String(choices=("open", "invite", "closed"))
    session_seconds = Seconds(most=MAX_KEPT_SECONDS)


class AccountsSchema(Schema):
    default_limits = make_bounds_field()
    default_budget = Section(BudgetSchema, example="{usd_per_month: 5}")
    personal_keys = Boolean()


class LedgerSchema(Schema):
    keep_days = Integer(least=1, most=36_500)
    whole_months = Boolean()
    keep_totals_days = Integer(least=1, most=36_500)
    spool_bytes = Integer(least=1024 * 1024)
    bodies = Boolean()


class FileSchema(Schema):
    server = Section(ServerSchema)
    plugins = Table(PluginSwitch(), check_name=check_name)
    providers = Table(Section(ProviderSchema, example="{plugin: openai}"), check_name=check_name)
    models = Table(Section(ModelSchema, example="{provider: openai}"), check_name=check_model_name)
    keys = List(Section(KeySchema, example='{name: dev, key: "${GATE_KEY:-}"}'))
    limits = Section(LimitsSchema)
    circuits = Section(CircuitsSchema)
    retries = Section(RetriesSchema, example="{same_target: 1}")
    media = Section(MediaSchema)
    videos = Section(VideosSchema)
    tasks = Section(TasksSchema, example="{store: database}")
    state = Section(StateSchema, example="{store: database}")
    realtime = Section(RealtimeSchema)
    responses = Section(ResponsesSchema)
    fetch = Section(FetchSchema)
    network = Section(NetworkSchema, example="{proxy: http://proxy.example:3128}")
    defaults = Table(String(), check_name=check_operation)
    dialect = String(choices=("contract", "vendor", "auto"))
    database = SecretString(empty=True, validate=check_database)
    console = Section(ConsoleSchema)
    accounts = Section(AccountsSchema)
    auth = make_auth_field()
    cors = Section(CorsSchema, example="{origins: [https://app.example]}")
    ledger = Section(LedgerSchema)
    alerts = Section(AlertsSchema, example='{sinks: {ops: {type: slack, url: "${SLACK_WEBHOOK_URL}"}}}')
    tapes = Section(TapesSchema, example="{rules: [{models: [gpt-*], share: 0.01}]}")
    users = Table(Section(TeamSchema, example="{limits: {requests_per_minute: 60}}"), check_name=check_name)
    teams = Table(Section(TeamSchema, example="{budget: {usd_per_month: 500}}"), check_name=check_name)
    prices = make_prices_field()
    default_prices = Boolean()
    unpriced = String(choices=("allow", "deny"))


_FILE_SCHEMA = FileSchema()


def make_key_index() -> KeyIndex:
    """Return the index of all keys of the file. Make one for each file, because it limits the searches for similar keys."""
    return KeyIndex(_FILE_SCHEMA)


def check(loaded: Any) -> tuple[dict[str, Any], list[Fault]]:
    """Return (valid values, faults) for the file's values; faults concern types, bounds and unknown keys."""
    sections = ", ".join(_FILE_SCHEMA.load_fields)
    if not loaded and (loaded is None or isinstance(loaded, dict)):
        return {}, [((), f"is empty; write at least one of the sections {sections}")]
    if not isinstance(loaded, dict):
        return {}, [((), f"must be a mapping with the sections {sections}, not {values.describe_type(loaded)}")]
    try:
        return _FILE_SCHEMA.load(loaded), []
    except ValidationError as error:
        faults = [
            _find_misspelling(loaded, path) or (path, message)
            for path, message in flatten_messages(error.messages, make_key_index(), _FILE_SCHEMA)
        ]
        sound: Any = error.valid_data
        return sound or {}, faults


def _find_misspelling(loaded: Any, path: KeyPath) -> Fault | None:
    """Return the fault of a key of a provider entry that was meant as `path`, its missing ``plugin``; None for other faults.

    Unknown keys of an entry are settings of its plugin, so only their resemblance shows that they are misspelled.
    """
    if len(path) != 3 or (path[0], path[2]) != ("providers", "plugin"):
        return None
    entry = loaded["providers"].get(path[1]) or {}
    words = [] if "plugin" in entry else [word for word in entry if did_you_mean(word, ("plugin",))]
    return ((*path[:2], words[0]), "unknown key; did you mean 'plugin'?") if words else None
