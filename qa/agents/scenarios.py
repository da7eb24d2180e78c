"""What the model does in each scenario, and what it must get back. Runs inside the mock upstream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qa.agents.conversation import Conversation, Round, ToolCall, Turn
from qa.agents.images import is_picture
from qa.agents.tools import Intent, call_tool

COUNT_PROMPT = "Count the tokens of this picture."
LOADED_TOOL = "NotebookEdit"
LONG_ROUNDS = 12
"""Tool rounds of each of the two prompts of the scenario ``long``."""
FIRST = 'alpha 17.5 µm — "quoted" \\ backslash'
EDITED = "the edited line"
OLD = "the second line"


@dataclass(frozen=True, slots=True)
class Step:
    """One tool round: the thinking and text before it, what to do, and what each result must contain."""

    intents: tuple[Intent, ...]
    expected: tuple[str, ...] = ()
    text: str = ""
    thinking: tuple[tuple[str, str], ...] = ()
    between: str = ""
    pictures: int = 0
    """How many pictures the conversation has after it."""
    loads: str = ""
    """A tool that the next request must offer."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`prompts` are given to the agent one after the other, the later ones by continuing its session."""

    name: str
    prompts: tuple[str, ...]
    steps: tuple[tuple[Step, ...], ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """What the files of the workspace must be at the end."""
    attaches_picture: bool = False


def _thought(number: int, *parts: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"I think about step {number}{part}.", f"mark{number}{part}") for part in parts)


def _tools() -> Scenario:
    written = f"{FIRST}\n{OLD}\n"
    steps = (
        Step((Intent("write", "notes.txt", written),), text="I write the file."),
        Step((Intent("read", "notes.txt"),), expected=("alpha 17.5 µm",)),
        Step((Intent("edit", "notes.txt", EDITED, OLD),), text="Now I edit it."),
        Step((Intent("read", "notes.txt"), Intent("write", "other.txt", "other\n")), expected=(EDITED, "")),
    )
    return Scenario(
        "tools", ("Write, edit and read the file notes.txt.",), (steps,), {"notes.txt": f"{FIRST}\n{EDITED}\n"}
    )


def _thinking() -> Scenario:
    steps = (
        Step((Intent("write", "a.txt", "one\n"),), text="First the file.", thinking=_thought(0, "a")),
        Step((Intent("read", "a.txt"),), expected=("one",), thinking=_thought(1, "a", "b"), between="Then I look."),
        Step((Intent("write", "b.txt", "two\n"), Intent("write", "c.txt", "three\n")), thinking=_thought(2, "a")),
        Step((Intent("read", "b.txt"),), expected=("two",), thinking=_thought(3, "a")),
    )
    return Scenario(
        "thinking", ("Think, then write and read the file a.txt.",), (steps,), {"b.txt": "two\n", "c.txt": "three\n"}
    )


def _long() -> Scenario:
    def work(start: int) -> tuple[Step, ...]:
        steps: list[Step] = []
        for number in range(start, start + LONG_ROUNDS // 2):
            steps.append(
                Step((Intent("write", f"file{number}.txt", f"content {number}\n"),), thinking=_thought(number, "w"))
            )
            steps.append(Step((Intent("read", f"file{number}.txt"),), expected=(f"content {number}",)))
        return tuple(steps)

    prompts = ("Write and read some files, one after the other.", "Now write and read some more files.")
    return Scenario(
        "long", prompts, (work(0), work(LONG_ROUNDS)), {f"file{LONG_ROUNDS}.txt": f"content {LONG_ROUNDS}\n"}
    )


def _search() -> Scenario:
    step = Step((Intent("load", LOADED_TOOL),), expected=(LOADED_TOOL,), loads=LOADED_TOOL)
    return Scenario("search", ("Find a tool for notebooks.",), ((step,),))


SCENARIOS: Mapping[str, Scenario] = {
    one.name: one
    for one in (
        Scenario("chat", ("Say hello.",), ((),)),
        _tools(),
        Scenario("image", ("Which colour has this picture?",), ((Step((Intent("look", "picture.png"),), pictures=2),),),
                 attaches_picture=True),
        _thinking(),
        _long(),
        _search(),
        Scenario("count", (COUNT_PROMPT,), ((),), attaches_picture=True),
    )
}  # fmt: skip


class Fault(Exception):
    """The agent's request is not what the model must get at this point."""


def done_word(scenario: str, prompt: int) -> str:
    """The word that the last answer to a prompt contains, and the agent must print."""
    return f"DONE-{scenario}-{prompt}"


def answer(
    scenario: Scenario, folder: str, conversation: Conversation, expect_thinking: Callable[[str, str], str]
) -> Turn:
    """The next turn of the model. `expect_thinking` returns what must come back for (text, signature). Raises Fault."""
    prompt = next(number for number, one in reversed([*enumerate(scenario.prompts)]) if _was_asked(one, conversation))
    steps = [step for some in scenario.steps[: prompt + 1] for step in some]
    before = sum(map(len, scenario.steps[:prompt]))
    done = len(conversation.rounds)
    if done < before:
        raise Fault(f"only {done} of {before} tool rounds of the first prompt came back")
    for number, (step, made) in enumerate(zip(steps, conversation.rounds, strict=False)):
        _check_results(number, step, made, conversation)
        if number >= before and conversation.wants_thinking:
            _check_thinking(number, step, made, expect_thinking)
    loaded = {step.loads for step in steps[:done] if step.loads}
    if loaded - conversation.tools.keys():
        raise Fault(f"the tools {loaded} were not loaded: {sorted(conversation.tools)}")
    wanted = max((step.pictures for step in steps[:done]), default=int(scenario.attaches_picture))
    if (arrived := sum(map(is_picture, _pictures(conversation)))) < wanted:
        raise Fault(f"{arrived} of {wanted} pictures arrived")
    if done > len(steps):
        raise Fault(f"{done} tool rounds came back, {len(steps)} were made")
    if done == len(steps):
        return Turn(f"All is well. {done_word(scenario.name, prompt)}")
    return _make_turn(done, steps[done], folder, conversation)


def _was_asked(prompt: str, conversation: Conversation) -> bool:
    return any(prompt in text for text in conversation.user_texts)


def _pictures(conversation: Conversation) -> list[bytes]:
    return [
        *conversation.user_images,
        *(one for made in conversation.rounds for result in made.results for one in result.images),
    ]


def _check_results(number: int, step: Step, made: Round, conversation: Conversation) -> None:
    ids = [call.id for call in made.calls]
    if len(made.results) != len(step.intents):
        raise Fault(f"step {number}: {len(made.results)} results for {len(step.intents)} calls")
    for place, wanted in enumerate(step.expected):
        result = next((one for one in made.results if one.call_id == ids[place]), None)
        if result is None or wanted not in result.text.replace('\\"', '"'):
            raise Fault(f"step {number}: the result of call {ids[place]} is {result}, expected {wanted!r}")
    for call, intent in zip(made.calls, step.intents, strict=True):
        sent = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
        if intent.path not in sent:
            raise Fault(f"step {number}: the arguments of call {call.id} came back changed: {sent[:200]}")


def _check_thinking(number: int, step: Step, made: Round, expect_thinking: Callable[[str, str], str]) -> None:
    expected = [expect_thinking(*one) for one in step.thinking]
    missing = [one for one in expected if not any(one in came for came in made.thinking)]
    if missing:
        raise Fault(f"step {number}: thinking did not come back: {missing}, but {made.thinking}")


def _make_turn(number: int, step: Step, folder: str, conversation: Conversation) -> Turn:
    calls = []
    for place, intent in enumerate(step.intents):
        name, arguments = call_tool(intent, folder, conversation.tools)
        calls.append(ToolCall(f"call_s{number}p{place}", name, arguments))
    return Turn(step.text, tuple(calls), step.thinking if conversation.wants_thinking else (), step.between)


def answer_side_call(conversation: Conversation) -> Turn:
    """The answer to a request beside the main conversation: a title, a classification, JSON for a schema."""
    if conversation.schema is None:
        return Turn("A short title")
    return Turn(json.dumps(make_value(conversation.schema)))


def make_value(schema: dict[str, Any]) -> Any:
    """A value that a JSON schema (or a Gemini schema) accepts."""
    if "enum" in schema:
        return schema["enum"][0]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return make_value(options[0])
    kind = schema.get("type", "object")
    match (kind[0] if isinstance(kind, list) else kind).lower():
        case "object":
            return {name: make_value(one) for name, one in (schema.get("properties") or {}).items()}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return 0
        case _:
            return "a word"
