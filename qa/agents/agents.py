"""The agents: how each is configured against the gateway, and started without a person.

`files` and `environment` are what docs/recipes/agents.md shows; `unattended` is added here only: no updates, no telemetry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qa.agents.scenarios import COUNT_PROMPT

FOLDER = Path(__file__).parent
PICTURE = "picture.png"
COMMON = ("chat", "tools", "image", "thinking", "long")
VARIANT = ("tools", "image", "thinking")


@dataclass(frozen=True, slots=True)
class Session:
    """What one start of an agent needs: the gateway's URL and key, the model, the prompt, whether it continues, its workspace."""

    url: str
    key: str
    model: str
    prompt: str
    continues: bool
    picture: bool
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent. `files` are below the home folder. `wire` names the format that it speaks to the gateway."""

    name: str
    title: str
    package: str
    program: str
    wire: str
    files: Callable[[Session], Mapping[str, str]] = lambda _session: {}
    environment: Callable[[Session], Mapping[str, str]] = lambda _session: {}
    arguments: Callable[[Session], Sequence[str]]
    unattended: Mapping[str, str] = field(default_factory=dict)
    scenarios: tuple[str, ...] = COMMON
    """The scenarios that are run with it; the others are about what it never does, or the same as with a variant of it."""
    counts: str = ""
    """The end of the path with which it counts tokens; "" if it never does."""
    count_word: str = ""
    """What it prints in the scenario ``count``; "" for the answer of the model."""
    family: str = ""
    """The names of the models that it asks, see `site.MODELS`."""
    uses_websocket: bool = False
    """Whether its requests must be messages of a WebSocket."""

    @property
    def version(self) -> str:
        """The version in package.json."""
        versions: dict[str, str] = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["dependencies"]
        return versions[self.package]

    @property
    def command(self) -> Path:
        return FOLDER / "node_modules/.bin" / self.program


def _claude_arguments(session: Session) -> list[str]:
    prompt = f"{session.prompt} @{PICTURE}" if session.picture else session.prompt
    prompt = "/context" if session.prompt == COUNT_PROMPT else prompt
    return [*(["--continue"] if session.continues else []), "-p", prompt, "--allowedTools", "Read,Write,Edit,Bash"]


def _codex_arguments(session: Session) -> list[str]:
    flags = ["--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
    picture = ["--image", PICTURE] if session.picture else []
    start = ["exec", "resume", "--last"] if session.continues else ["exec"]
    return [*start, *flags, session.prompt, *picture]


def _codex_files(session: Session) -> dict[str, str]:
    text = f"""model = "{session.model}"
model_provider = "gate"

[model_providers.gate]
name = "tornado_gate"
base_url = "{session.url}/v1"
env_key = "GATE_KEY"
wire_api = "responses"
"""
    return {".codex/config.toml": text}


def _codex_websocket_files(session: Session) -> dict[str, str]:
    return {name: f"{text}supports_websockets = true\n" for name, text in _codex_files(session).items()}


def _gemini_arguments(session: Session) -> list[str]:
    prompt = f"{session.prompt} @{PICTURE}" if session.picture else session.prompt
    resume = ["--resume", "latest"] if session.continues else []
    return [*resume, "--model", session.model, "--yolo", "--skip-trust", "--prompt", prompt]


def _qwen_arguments(session: Session) -> list[str]:
    prompt = f"{session.prompt} @{PICTURE}" if session.picture else session.prompt
    return [*(["--continue"] if session.continues else []), "--auth-type", "openai", "--yolo", "--prompt", prompt]


def _opencode_arguments(session: Session) -> list[str]:
    picture = ["--file", PICTURE] if session.picture else []
    resume = ["--continue"] if session.continues else []
    return ["run", *resume, "--auto", "--model", f"gate/{session.model}", session.prompt, *picture]


def _opencode_files(package: str, path: str) -> Callable[[Session], dict[str, str]]:
    def files(session: Session) -> dict[str, str]:
        model = {
            "attachment": True, "reasoning": True, "tool_call": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
            "limit": {"context": 200000, "output": 32000},
        }  # fmt: skip
        options = {"baseURL": session.url + path, "apiKey": "{env:GATE_KEY}"}
        provider = {"npm": package, "name": "tornado_gate", "options": options, "models": {session.model: model}}
        return {".config/opencode/opencode.json": json.dumps({"provider": {"gate": provider}}, indent=2) + "\n"}

    return files


OPENCODE_ENVIRONMENT = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}


def _opencode(name: str, title: str, wire: str, package: str, path: str, **rest: Any) -> Agent:
    return Agent(
        name=name, title=title, package="opencode-ai", program="opencode", wire=wire, files=_opencode_files(package, path),
        environment=lambda session: {"GATE_KEY": session.key}, arguments=_opencode_arguments,
        unattended=OPENCODE_ENVIRONMENT, **rest,
    )  # fmt: skip


_AGENTS: Sequence[Agent] = (
    Agent(
        name="claude",
        title="Claude Code",
        package="@anthropic-ai/claude-code",
        program="claude",
        wire="`/v1/messages`",
        environment=lambda session: {
            "ANTHROPIC_BASE_URL": session.url,
            "ANTHROPIC_AUTH_TOKEN": session.key,
            "ANTHROPIC_MODEL": session.model,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": session.model,
        },
        arguments=_claude_arguments,
        scenarios=(*COMMON, "search", "count"),
        counts="/count_tokens",
        count_word="Context Usage",
        family="claude",
        unattended={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
    ),
    Agent(
        name="codex",
        title="Codex",
        package="@openai/codex",
        program="codex",
        wire="`/v1/responses`",
        files=_codex_files,
        environment=lambda session: {"GATE_KEY": session.key},
        arguments=_codex_arguments,
        family="gpt",
    ),
    Agent(
        name="codex-websocket",
        title="Codex (WebSocket)",
        package="@openai/codex",
        program="codex",
        wire="`/v1/responses` over WebSocket",
        files=_codex_websocket_files,
        environment=lambda session: {"GATE_KEY": session.key},
        arguments=_codex_arguments,
        family="gpt",
        uses_websocket=True,
    ),
    Agent(
        name="gemini",
        title="Gemini CLI",
        package="@google/gemini-cli",
        program="gemini",
        wire="`/v1beta/models/…`",
        files=lambda _session: {
            ".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}\n'
        },
        environment=lambda session: {"GOOGLE_GEMINI_BASE_URL": session.url, "GEMINI_API_KEY": session.key},
        arguments=_gemini_arguments,
        scenarios=(*COMMON, "count"),
        counts=":countTokens",
        family="gemini",
    ),
    Agent(
        name="qwen",
        title="Qwen Code",
        package="@qwen-code/qwen-code",
        program="qwen",
        wire="`/v1/chat/completions`",
        environment=lambda session: {
            "OPENAI_BASE_URL": f"{session.url}/v1",
            "OPENAI_API_KEY": session.key,
            "OPENAI_MODEL": session.model,
        },
        arguments=_qwen_arguments,
    ),
    _opencode("opencode", "OpenCode (openai-compatible)", "`/v1/chat/completions`", "@ai-sdk/openai-compatible", "/v1"),
    _opencode("opencode-openai", "OpenCode (openai)", "`/v1/responses`", "@ai-sdk/openai", "/v1", scenarios=VARIANT),
    _opencode(
        "opencode-anthropic", "OpenCode (anthropic)", "`/v1/messages`", "@ai-sdk/anthropic", "/v1", scenarios=VARIANT
    ),
    _opencode(
        "opencode-google", "OpenCode (google)", "`/v1beta/models/…`", "@ai-sdk/google", "/v1beta", scenarios=VARIANT
    ),
)

AGENTS: Sequence[Agent] = (
    *_AGENTS,
    *(
        replace(agent, name=f"{agent.name}-other", title=f"{agent.title}, other vendors' model names", family="")
        for agent in _AGENTS
        if agent.family and not agent.uses_websocket
    ),
)
