"""Creates and connects the parts of a serving process. No other module does."""

from __future__ import annotations

from tornado_gate.config.model import Config
from tornado_gate.gateway.body_budget import BodyBudget
from tornado_gate.gateway.gate import Gate
from tornado_gate.http.fetch import Fetcher
from tornado_gate.plugins.host import PluginHost
from tornado_gate.realtime.sessions import ClientSecrets, OpenSessions
from tornado_gate.server.services import MediaSweeper, Services
from tornado_gate.storage.conversation_state import MemoryStore, SharedMemory
from tornado_gate.storage.files import MediaStore, load_media_secret
from tornado_gate.storage.keys import KeyStore
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.metrics import TaskMetrics
from tornado_gate.tasks.provider_client import ProviderClient
from tornado_gate.tasks.service import TaskService
from tornado_gate.tasks.webhook_sender import WebhookSender, load_webhook_secret
from tornado_gate.telemetry.metrics import Metrics

SECRETS_OWNER = "\0client secrets"
"""The account under which client secrets are stored: no real account has such a name."""


def make_services(config: Config, host: PluginHost, keystore: KeyStore, metrics: Metrics) -> Services:
    """Create the parts of a process that serves `config`."""
    data_dir = config.server.data_dir
    gate = Gate(config, host, keystore, metrics)
    memory = SharedMemory(MemoryStore(data_dir))
    fetcher = Fetcher()
    media = MediaStore(data_dir / "media", secret=load_media_secret(data_dir))
    tasks = _make_task_service(config, gate, fetcher)
    services = Services(
        gate=gate,
        memory=memory,
        fetcher=fetcher,
        bodies=BodyBudget(config.limits.bodies_bytes),
        media=media,
        tasks=tasks,
        secrets=ClientSecrets(memory.get_account_memory(SECRETS_OWNER)),
        sessions=OpenSessions(),
        sweeper=MediaSweeper((media, tasks.files)),
    )
    services.apply(config)
    return services


def _make_task_service(config: Config, gate: Gate, fetcher: Fetcher) -> TaskService:
    data_dir = config.server.data_dir
    files = MediaStore(data_dir / "videos", secret=load_media_secret(data_dir), address="/videos/", evicts=False)
    sender = WebhookSender(fetcher, load_webhook_secret(data_dir))
    store = FileTaskStore(data_dir / "tasks")
    engine = TaskEngine(store, files, ProviderClient(gate, fetcher), config.videos, sender)
    TaskMetrics(gate, engine)
    return TaskService(gate, engine)
