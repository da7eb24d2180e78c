"""What a caller's request says, compared with what arrived at the vendor and what x-gate-loss names.

Every leaf of the caller's body is looked for in the upstream's body: a text anywhere in its texts, a number or boolean under
the name that this value has there. What is in neither and named by no loss is an unreported loss. Words that only give the
shape of a format (``type``, ``role``) are not compared; a word with a meaning (``tool_choice``) has its own rule.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Json = Mapping[str, Any]
Rule = Callable[[Any, Json], bool]

_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys((*_LIMITS, "maxOutputTokens"), _LIMITS),
    "topP": ("top_p",),
    "presencePenalty": ("presence_penalty",),
    "frequencyPenalty": ("frequency_penalty",),
    "candidateCount": ("n",),
    "logprobs": ("top_logprobs", "logprobs"),
}
_SHAPE: Final = re.compile(
    r"(^|\.)(type|thought|role|stream|model|include_usage|annotations(\..*)?|media_type|index|signature|thoughtSignature"
    r"|encrypted_content|id|status|logprobs\.\d.*|phase)$"
)


def find_unreported(body: Json, arrived: Json, losses: tuple[str, ...], mapped: tuple[str, ...]) -> list[str]:
    """The paths of `body` that neither arrived nor are reported. `mapped` are patterns of documented mappings."""
    texts = "\n".join(iterate_texts(arrived))
    missing: list[str] = []
    for path, value in iterate_leaves(body):
        if value is None or value in ("", False) or has_arrived(path, value, arrived, texts):
            continue
        if any(is_about(name, path) for name in losses) or any(re.fullmatch(one, path) for one in mapped):
            continue
        missing.append(path)
    return missing


def is_about(name: str, path: str) -> bool:
    """Whether a loss names a path, something above it, or with levels left out, as the gateway names it."""
    if path == name or path.startswith(f"{name}.") or name.startswith(f"{path}."):
        return True
    said, steps = name.split("."), path.split(".")
    left = iter(steps)
    return len(said) > 1 and said[0] == steps[0] and all(step in left for step in said)


def has_arrived(path: str, value: Any, arrived: Json, texts: str) -> bool:
    if rule := find_rule(path):
        return rule(value, arrived)
    if isinstance(value, str):
        return value in texts or json.dumps(value, ensure_ascii=False)[1:-1] in texts
    name = path.rpartition(".")[2]
    name = path.split(".")[-2] if name.isdigit() else name
    leaves = list(iterate_leaves(arrived))
    wanted = _NAMES.get(name, (name,))
    if any(leaf == value and other.split(".")[-1] in wanted for other, leaf in leaves):
        return True
    return any(json.dumps(value) in text for text in iterate_texts(arrived) if text.startswith("{"))


@functools.cache
def find_rule(path: str) -> Rule | None:
    """How the value at this path arrives, unless as a text or as a member; kept, for thousands of bodies have the same paths."""
    found = next((rule for pattern, rule in RULES.items() if re.fullmatch(pattern, path)), None)
    return found or (_is_shape if _SHAPE.search(path) else None)


def _is_shape(value: Any, arrived: Json) -> bool:
    return True


def iterate_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar with its dotted path; an empty object or array is a leaf that says nothing."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from iterate_leaves(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from iterate_leaves(member, f"{path}.{number}")
    else:
        yield path, value


def iterate_texts(value: Any) -> Iterator[str]:
    """Every text in a body, with the names of members, which hold the properties of schemas."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from iterate_texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from iterate_texts(member)
    elif isinstance(value, str):
        yield value


def get_at(body: Any, path: str) -> Any:
    """The value at a dotted path; None when there is none."""
    for step in path.split("."):
        if isinstance(body, list):
            body = body[int(step)] if step.lstrip("-").isdigit() and int(step) < len(body) else None
        else:
            body = body.get(step) if isinstance(body, Mapping) else None
    return body


def _effort_of(arrived: Json) -> Any:
    return arrived.get("reasoning_effort") or get_at(arrived, "reasoning.effort")


def _has_effort(value: Any, arrived: Json) -> bool:
    return _effort_of(arrived) is not None


def _has_same_effort(value: Any, arrived: Json) -> bool:
    return bool(_effort_of(arrived) == str(value).lower())


def _has_summary(value: Any, arrived: Json) -> bool:
    return get_at(arrived, "reasoning.summary") is not None


def _has_thinking(value: Any, arrived: Json) -> bool:
    return bool((_effort_of(arrived) == "none") == (value == "disabled"))


def _has_choice(value: Any, arrived: Json) -> bool:
    """The mode of a tool choice; a single named tool is a choice of its own."""
    choice = arrived.get("tool_choice")
    mode = {"any": "required", "ANY": "required", "AUTO": "auto", "NONE": "none", "tool": "tool"}.get(value, value)
    if isinstance(choice, Mapping):
        return mode in ("tool", "required", "function", "custom", "allowed_tools", choice.get("mode"))
    return choice == mode or (choice is None and mode == "auto")


def _has_parallel_off(value: Any, arrived: Json) -> bool:
    return arrived.get("parallel_tool_calls") is False


def _has_json_format(value: Any, arrived: Json) -> bool:
    wanted = arrived.get("response_format") or get_at(arrived, "text.format") or {}
    return value == "text/plain" or str(wanted.get("type")).startswith("json")


def _has_logprobs(value: Any, arrived: Json) -> bool:
    return arrived.get("logprobs") is True or "message.output_text.logprobs" in (arrived.get("include") or ())


def _has_type(value: Any, arrived: Json) -> bool:
    return str(value).lower() in json.dumps(arrived)


def _has_call_arguments(value: Any, arrived: Json) -> bool:
    return json.dumps(value, ensure_ascii=False) in json.dumps(arrived, ensure_ascii=False).replace('\\"', '"')


RULES: Final[Mapping[str, Rule]] = {
    r"thinking\.type": _has_thinking,
    r"thinking\.display": _has_summary,
    r"thinking\.budget_tokens": _has_effort,
    r"generationConfig\.thinkingConfig\.thinkingBudget": _has_effort,
    r"generationConfig\.thinkingConfig\.thinkingLevel": _has_same_effort,
    r"generationConfig\.thinkingConfig\.includeThoughts": _has_summary,
    r"output_config\.effort|reasoning_effort|reasoning\.effort": _has_same_effort,
    r"reasoning\.summary": _has_summary,
    r"tool_choice\.type|tool_choice|toolConfig\.functionCallingConfig\.mode": _has_choice,
    r"tool_choice\.mode|tool_choice\.allowed_tools\.mode": _has_choice,
    r"tool_choice\.disable_parallel_tool_use": _has_parallel_off,
    r"generationConfig\.responseMimeType|response_format\.type|text\.format\.type|output_config\.format\.type": (
        _has_json_format
    ),
    r"generationConfig\.responseLogprobs|logprobs": _has_logprobs,
    r"tools\..*(schema|parameters).*\.type|generationConfig\.responseSchema(\..*)?\.type": _has_type,
    r"messages\.\d+\.content\.\d+\.input\..*|contents\.\d+\.parts\.\d+\.functionCall\.args\..*": _has_call_arguments,
}
