"""The text of a plain answer: an echo, a sum, a greeting, a self-description, or a template that quotes the message. Pure.

`variant` selects the wording: consecutive numbers give different wordings where there is more than one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tornado_gate_local import words
from tornado_gate_local.conversation import LocalTurn, ToolAnswer, describe_attachments

MAX_QUOTE_LENGTH = 80  # of the user's message that are quoted

_ASKED = r"(?:(?:please|now|just|then|can you|could you|would you|simply)\s{1,20}+){0,5}+"
_ECHO = re.compile(
    rf"(?:^|[.!?:;\n]\s{{0,20}}+){_ASKED}(say|repeat|echo|reply|respond|answer|write|print|output)\b"
    r"(?!\s+(?:a|an|me a|my|your|in|to)\b)"
    r"(\s+(?:with|back to me|back|after me|only|just|exactly|this|these|one word"
    r"|(?:the|a) (?:single |exact |following )?(?:words?|phrase|text|sentence|number|string|line))\b)*\s*([:,]?)\s*",
    re.IGNORECASE,
)
_NEEDS_WITH = frozenset({"reply", "respond", "answer", "write", "print", "output"})
_OPENING = "\"'“\u2018`«"
_CLOSING = {'"': '"', "'": "'", "“": "”", "\u2018": "\u2019", "`": "`", "«": "»"}
_TAIL = re.compile(
    r"\s*+,?\s*+(?:(?:and|with)?\s*+nothing (?:else|more)|please|exactly|only|and (?:then )?stop|in (?:one|a single) word"
    r"|back(?: to me)?|to me)\s*+$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_GREETINGS = frozenset(
    {"hello", "hi", "hey", "hello there", "hello world", "good morning", "good evening", "goodbye", "bye", "thanks"}
)
_SUM_ASKED = re.compile(r"\b(?:what(?:'s|\u2019s| is)|how much is|calculate|compute|evaluate|solve)\b", re.IGNORECASE)
_WHO = re.compile(
    r"\b(?:who|what) are you\b|\bwhat(?:'s|\u2019s| is) your name\b|\byour model\b|\bintroduce yourself\b"
    r"|\b(?:what|which) (?:\w+ )?model (?:are|is|am|do)\b"
    r"|\bare you (?:an? )?(?:\w+ )?(?:gpt|chatgpt|claude|gemini|ai|bot|robot|human|model|person)\b",
    re.IGNORECASE,
)

_WELCOMES = (
    "Hello! How can I help you?",
    "Hello, nice to hear from you. What can I do for you?",
    "Hi there! What would you like to try?",
    "Good to see you! What is on your mind?",
)
_SUMS = ("{sum} is {result}.", "The answer is {result}.", "That makes {result}.", "{result}, if I count right.")
_TEMPLATES = (
    "Thank you for your message. You wrote “{quote}”, and I read all of it.",
    "I read “{quote}” with pleasure. There is little I can add, but every word of it arrived.",
    "You said “{quote}”. That came through clearly, and here is my answer to it.",
    "Got it: “{quote}”. If this reaches you, everything between us works.",
    "“{quote}”: a good thing to ask. My answer is short, but it is on time.",
    "Here is what I understood: “{quote}”. Ask me something else whenever you like.",
    "Your message begins with “{quote}”. I followed it to its end.",
    "About “{quote}”: I would gladly say more if I knew more.",
)
_EMPTY = (
    "There were no words for me to answer, but I am listening.",
    "I am here. Write me a few words and I will answer them.",
    "Your message had no text in it. What would you like to say?",
)
_WHO_I_AM = (
    "I am the local demonstration model of tornado_gate.",
    "You are talking to the local demonstration model of tornado_gate.",
    "I have no name of my own: I am the local demonstration model that comes with tornado_gate.",
)
_NO_MIND = " I answer by simple rules, without network or weights, so that everything around me can be tried."


def make_answer(turn: LocalTurn, variant: int) -> str:
    """The answer text for a turn; never empty."""
    said = [_summarize_results(turn.results), describe_attachments(turn.attachments)]
    if not turn.after_tools and (turn.text or not any(said)):
        said.append(_reply(turn.text, variant))
    return "\n".join(sentence for sentence in said if sentence) or _EMPTY[variant % len(_EMPTY)]


def _summarize_results(results: Iterable[ToolAnswer]) -> str:
    lines = []
    for result in results:
        verb = "failed with" if result.is_error else "answered"
        who = f"The tool {result.name}" if result.name else "The tool"
        lines.append(f"{who} {verb}: {result.text or '(nothing)'}")
    return "\n".join(lines)


_Rule = Callable[[str, int], str | None]


def _reply(text: str, variant: int) -> str:
    if not text:
        return _EMPTY[variant % len(_EMPTY)]
    for rule in _RULES:
        answer = rule(text, variant)
        if answer is not None:
            return answer
    return _TEMPLATES[variant % len(_TEMPLATES)].format_map({"quote": quote_text(text)})


def quote_text(text: str) -> str:
    """The beginning of a text on one line, cut between words."""
    line = " ".join(text[: 4 * MAX_QUOTE_LENGTH].split())
    if len(line) <= MAX_QUOTE_LENGTH:
        return line
    cut, _, _ = line[:MAX_QUOTE_LENGTH].rpartition(" ")
    return (cut or line[:MAX_QUOTE_LENGTH]) + "…"


def _reply_with_echo(text: str, variant: int) -> str | None:
    """The text that the user asks to have repeated: 'say X', 'repeat: X', 'reply with exactly "X"'. None without one."""
    match = _ECHO.search(text, 0, words.SAMPLE_CHARACTERS)
    if match is None or (match[1].lower() in _NEEDS_WITH and not (match[2] or match[3])):
        return None
    rest = text[match.end() :]
    echo = _cut_quoted(rest) or (rest.strip() if match[3] == ":" else _cut_sentence(rest))
    if echo.lower().rstrip("!.") in _GREETINGS and match[1].lower() == "say":
        greeting = echo[0].upper() + echo[1:].rstrip("!.")
        return greeting + ("!", ".", "! :-)", ", and welcome!")[variant % 4]
    return echo or None


def _cut_quoted(rest: str) -> str:
    if rest[:1] not in _CLOSING:
        return ""
    closing = _CLOSING[rest[0]]
    end = rest.find(closing, 1)
    while end > 0 and rest[end + 1 : end + 2].isalnum():  # an apostrophe
        end = rest.find(closing, end + 1)
    return rest[1:end] if end > 0 else ""


def _cut_sentence(rest: str) -> str:
    end = _SENTENCE_END.search(rest)
    sentence = rest[: end.start()] if end else rest.rstrip().rstrip(".!?")
    while (shorter := _TAIL.sub("", sentence[-100:])) != sentence[-100:]:
        sentence = sentence[:-100] + shorter
    return sentence.strip().strip(_OPENING + "”\u2019»")


def _reply_who(text: str, variant: int) -> str | None:
    return _WHO_I_AM[variant % len(_WHO_I_AM)] + _NO_MIND if _WHO.search(words.take_sample(text)) else None


def _reply_sum(text: str, variant: int) -> str | None:
    expression = words.find_sum(text)
    if expression is None or not (_SUM_ASKED.search(words.take_sample(text)) or len(text) < len(expression) + 6):
        return None
    result = words.calculate(expression)
    if result is None:
        return "That cannot be divided by zero."
    return _SUMS[variant % len(_SUMS)].format_map({"sum": expression.strip(), "result": result})


def _reply_welcome(text: str, variant: int) -> str | None:
    greeting = text[:MAX_QUOTE_LENGTH].lower().strip(" !.?,\n").partition(",")[0]
    return _WELCOMES[variant % len(_WELCOMES)] if greeting in _GREETINGS else None


_RULES: tuple[_Rule, ...] = (_reply_with_echo, _reply_who, _reply_sum, _reply_welcome)


def make_thinking(turn: LocalTurn, calls: int, variant: int) -> str:
    """A short reasoning text about the next step."""
    seen = f"The user wrote “{quote_text(turn.text)}”." if turn.text else "The user sent no text."
    if turn.after_tools:
        seen += f" {len(turn.results)} tool result(s) came back, and they hold the answer."
    elif calls:
        seen += f" {calls} of the tools fit(s), so I call first and answer afterwards."
    return f"{seen} {('A short answer will do.', 'Let me keep it simple.', 'I know what to say.')[variant % 3]}"
