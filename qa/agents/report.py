"""Writes docs/recipes/agents.md: the results, and how to configure each agent."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from qa.agents.agents import AGENTS, VARIANT, Agent, Session
from qa.agents.probes import Probe
from qa.agents.runs import Outcome
from qa.agents.scenarios import SCENARIOS
from qa.agents.site import UPSTREAMS

PAGE = Path(__file__).resolve().parents[2] / "docs/recipes/agents.md"
EXAMPLE = Session("http://127.0.0.1:8080", "$GATE_KEY", "MODEL", "…", False, False, "")
INTRODUCTION = """# Coding agents

<!-- Written by `make agents`. Change qa/agents/report.py instead. -->

`make agents` installs coding agents from npm at pinned versions, and runs each unattended, in an empty home folder, against a
real gateway process. The gateway's upstreams are mock servers in another process. They speak the vendors' wire formats, refuse
what the vendors refuse (unknown members, calls without results, foreign signatures, invalid schemas, …), and act as a model that
makes the agent work. No vendor's cloud was called.

| scenario | what the model makes the agent do, and what must come back |
|---|---|
| chat | one answer |
| tools | write a file, read it, edit it, read it and write another one in parallel; the results and the files on the disk |
| image | the picture of the prompt, and the picture in the result of the agent's tool, intact |
| thinking | thinking before each step, also twice in one step; every signature or encrypted reasoning comes back unchanged |
| long | 24 tool rounds in two prompts; the second prompt continues the session that the agent has stored |
| search | a tool that the agent declares only after the model has searched for it |
| count | token counts that the agent requests |

| upstream | API | model |
|---|---|---|
| openai | Responses, with encrypted reasoning | a GPT-6 |
| compatible | chat completions, with `reasoning_content` that must come back | a Qwen |
| anthropic | Messages, with signed thinking | a Claude 5.5 |
| gemini | generateContent, with thought signatures | a Gemini 3.8 |
"""
NOTES = """## Notes

- Agents select the features of a request by the name of the model. Under names of their vendor they use everything that its
  API has: so the first runs of Claude Code, Codex and Gemini CLI use names such as `claude-sonnet-5-5` that the gateway routes to
  each upstream, "other vendors' model names" use the upstreams' own names.
- Codex sends requests for OpenAI's newest models without a list of tools ("responses lite"): its tools are in an
  `additional_tools` item, in namespaces, and one of them runs JavaScript that calls the others. The header
  `x-openai-internal-codex-responses-lite` is not sent to upstreams, because it restricts the tools that OpenAI accepts
  (Wei-Shaw/sub2api#4455, 2026-07-16).
- Codex uses WebSockets only with `supports_websockets = true` in the provider's entry of its file, as in the runs "Codex
  (WebSocket)".
- Gemini CLI sends each result twice when it resumes a session. The gateway translates it once; to Google's own API the request
  goes as it is, and the mock accepts it: whether Google does is not known here.
- Gemini CLI drops pictures from the results of its tools for models whose names begin with `gemini-3-`, unless the name is
  in its list.
- Gemini CLI replaces some names of models by others before it sends them (`gemini-3.5-flash` by `gemini-3.8-flash`, for example).
- Qwen Code sends pictures only to models whose names are in its list; OpenCode to models whose entry in its file allows them.
- Claude Code counts tokens for `/context`, and Gemini CLI for prompts with files; the other agents never do.
"""


def write_page(outcomes: Sequence[Outcome], probes: Sequence[Probe]) -> None:
    """Replace docs/recipes/agents.md."""
    PAGE.write_text("\n".join(_iterate_parts(outcomes, probes)), encoding="utf-8")


def _iterate_parts(outcomes: Sequence[Outcome], probes: Sequence[Probe]) -> Iterator[str]:
    yield INTRODUCTION
    yield "## Results\n"
    legend = "✓: passed; ✗: failed, see below; –: the agent never does it, or\nanother row shows it."
    yield f"Run on {datetime.date.today().isoformat()}. {legend}\n"
    yield render_table(outcomes)
    if faults := list(render_faults(outcomes)):
        yield "\n" + "\n".join(faults)
    yield "\n| request beside the conversation | answer | |\n|---|---|---|"
    yield from (f"| {one.request} | {one.answer} | {one.fault or '✓'} |" for one in probes)
    yield f"\n{NOTES}"
    yield "## Configuration\n"
    yield "The address comes from conf/gate.yaml, `MODEL` is any chat model, and `GATE_KEY` a key of the gateway.\n"
    yield from (render_configuration(agent) for agent in AGENTS if not agent.name.endswith("-other"))


def render_table(outcomes: Sequence[Outcome]) -> str:
    """One row for each agent and upstream, one column for each scenario."""
    found = {(one.agent, one.upstream, one.scenario): one for one in outcomes}
    rows = [f"| agent | version | upstream | {' | '.join(SCENARIOS)} |", "|---|---|---|" + "---|" * len(SCENARIOS)]
    for agent in AGENTS:
        for upstream in UPSTREAMS:
            cells = [
                _render_cell(agent, found.get((agent.name, upstream, scenario)), scenario) for scenario in SCENARIOS
            ]
            if any(cell.strip() and cell != "–" for cell in cells):
                rows.append(f"| {agent.title} | {agent.version} | {upstream} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _render_cell(agent: Agent, outcome: Outcome | None, scenario: str) -> str:
    if outcome is None:
        return " " if scenario in agent.scenarios else "–"
    return "✗" if outcome.faults else "✓"


def render_faults(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """One line for each failed run, with its first fault."""
    for one in outcomes:
        if one.faults:
            text = one.faults[0][:300].replace("|", "\\|").replace("\n", " ")
            yield f"- {one.agent}, {one.upstream}, {one.scenario}: {text}"


def render_configuration(agent: Agent) -> str:
    """The agent's files and environment, as a user writes them; of a variant, what differs."""
    lines = [f"### {agent.title}\n", f"`{agent.package}` {agent.version}, uses {agent.wire}.\n"]
    if agent.scenarios == VARIANT:
        (text,) = agent.files(EXAMPLE).values()
        gate = json.loads(text)["provider"]["gate"]
        differs = f'`"npm": "{gate["npm"]}"` and `"baseURL": "{gate["options"]["baseURL"]}"`'
        return "\n".join([*lines, f"The same file and environment, with {differs}.\n"])
    for name, text in agent.files(EXAMPLE).items():
        lines += [f"`~/{name}`:", f"```{Path(name).suffix[1:]}", text.rstrip(), "```"]
    lines += ["```sh", *_render_environment(agent.environment(EXAMPLE)), "```\n"]
    return "\n".join(lines)


def _render_environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if (name, value) != ("GATE_KEY", EXAMPLE.key):
            yield f"export {name}={value}"
        else:
            yield f"export {name}=…"
