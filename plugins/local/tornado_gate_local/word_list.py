"""Moderation by a word list: the categories that a text matches, and how strongly.

This is a demonstration, not a safety system. It finds the English words and phrases of the list below regardless of
context: a report of a crime matches like a threat, and other wordings or languages do not match. Do not use it to
protect anyone. The categories are those of OpenAI's moderation API (openai-python, types/moderation.py, 2026).

A score is 0 to 1: each match takes its weight of what is left to 1. From 0.5 on a category is flagged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from tornado_gate.types.value import Value
from tornado_gate_local.workers import POOL, WorkerPool
from tornado_gate_openai.wire.moderations import CATEGORIES

FLAG_THRESHOLD = 0.5
MAX_CHARACTERS_IN_LOOP = 4_000  # longer inputs are processed in a worker process
MAX_CHARACTERS = 4_000_000  # a million takes about a second and a half
EACH = 100  # characters that cost as much as each further text
ONCE_MORE = 3  # the largest number of matches of one phrase that count


class TextVerdict(Value, frozen=True, kw_only=True):
    """`scores` has every category, 0 to 1; `flagged` has those with 0.5 or more."""

    scores: Mapping[str, float]
    flagged: frozenset[str]


# Groups that hate speech targets; the words themselves are not flagged.
_GROUPS = (
    r"(?:immigrants|foreigners|refugees|jews|muslims|christians|hindus|blacks|whites|asians|arabs|gays|lesbians|"
    r"homosexuals|trans people|women|men|disabled people|old people|gypsies|roma)"
)
_MINOR = r"(?:child|children|kid|kids|minor|minors|underage|schoolgirl|schoolboy|\d year old|(?:1[0-7]|[1-9]) ?yo)"
_HARM = r"(?:kill|murder|shoot|stab|hurt|beat|strangle|burn|hang|destroy|slaughter)"
_SEX = r"(?:sex|sexual|sexually|nude|naked|porn|porno|pornography|erotic|erotica)"
_INSULT = r"(?:idiots?|morons?|losers?|stupid|worthless|pathetic|ugly|trash|garbage)"
_HOW = r"how (?:to|do i|can i|do you|should i)"
_I_WANT = r"i (?:want|wish|need|plan|am going|will|would like)(?: to)?"
_SOMEBODY = r"(?:you|him|her|them|people|everyone|someone|somebody|all)"
_I_WILL = r"(?:i will|i'll|i am going to|i'm going to|i'm gonna|we will|we'll|gonna|let's)"

# Category: phrases (case-insensitive parts of regular expressions) with their weights.
PHRASES: Mapping[str, tuple[tuple[str, float], ...]] = {
    "harassment": (
        (
            rf"you(?:'re| are)(?: all)?(?: such)?(?: an?)? {_INSULT}",
            0.75,
        ),
        (r"(?:shut up|go to hell|nobody likes you|everyone hates you|i hate you|screw you|fuck you)", 0.6),
        (r"(?:idiot|moron|loser|scumbag|bitch|bastard|asshole)s?", 0.4),
        (rf"{_I_WILL} (?:find|hunt|get|{_HARM}) you", 0.6),
    ),
    "harassment/threatening": (
        (rf"{_I_WILL} {_HARM} (?:you|your|him|her|them)", 0.85),
        (r"(?:you(?:'re| are) dead|you will (?:die|pay for)|you'll (?:die|regret)|watch your back)", 0.65),
        (rf"{_I_WILL} (?:find|hunt) you", 0.55),
    ),
    "hate": (
        (rf"(?:i hate|we hate|get rid of|deport|down with|death to)(?: all| the| those)* {_GROUPS}", 0.8),
        (rf"{_GROUPS} are (?:all )?(?:vermin|subhuman|animals|inferior|parasites|trash|filth|stupid|criminals)", 0.85),
        (r"(?:subhuman|vermin|master race|white power|racial purity)", 0.45),
        (rf"{_HARM}(?: all| the| those)* {_GROUPS}", 0.7),
    ),
    "hate/threatening": (
        (rf"(?:{_HARM}|exterminate|eradicate|death to)(?: all| the| those)* {_GROUPS}", 0.85),
        (rf"{_GROUPS} (?:should|must|deserve to) (?:die|be (?:killed|shot|hanged|exterminated))", 0.85),
    ),
    "illicit": (
        (
            rf"{_HOW} (?:steal|shoplift|hack|forge|counterfeit|launder|smuggle|pick a lock|cook meth|make meth)",
            0.75,
        ),
        (
            r"(?:buy|sell|make|cook|get)(?: some)? (?:cocaine|heroin|meth|methamphetamine|stolen \w+|fake id|counterfeit \w+)",
            0.65,
        ),
        (r"(?:money laundering|credit card fraud|identity theft|phishing kit|ransomware)", 0.35),
        (
            rf"{_HOW} (?:make|build)(?: an?)? (?:bomb|pipe bomb|explosives?|nerve agent|poison)",
            0.75,
        ),
    ),
    "illicit/violent": (
        (r"(?:make|build|making|building)(?: an?)? (?:bomb|pipe bomb|explosives?|nerve agent|poison|ghost gun)", 0.8),
        (
            rf"{_HOW} (?:kill|murder|poison|stab) (?:someone|somebody|a person|people|my \w+|him|her)",
            0.8,
        ),
        (r"(?:buy|get)(?: an?)? illegal (?:gun|guns|firearm|firearms|weapons?)", 0.7),
    ),
    "self-harm": (
        (
            r"(?:kill|killing|hurt|hurting|cut|cutting|harm|harming) (?:myself|yourself|himself|herself|themselves)",
            0.75,
        ),
        (r"(?:suicide|suicidal|self[- ]harm)", 0.6),
        (r"(?:end my life|take my own life|want to die|slit my wrists|overdose on)", 0.75),
    ),
    "self-harm/instructions": (
        (
            rf"{_HOW} (?:kill myself|commit suicide|cut myself|hurt myself|end my life|overdose)",
            0.85,
        ),
        (r"(?:best|easiest|painless) ways? to (?:die|kill myself|commit suicide|end my life)", 0.85),
        (r"you should (?:kill|hurt|cut) yourself", 0.6),
    ),
    "self-harm/intent": (
        (
            rf"{_I_WANT} (?:die|kill myself|hurt myself|cut myself|end my life|end it all)",
            0.85,
        ),
        (r"i(?:'m| am) (?:suicidal|going to kill myself|gonna kill myself|going to end my life)", 0.85),
    ),
    "sexual": (
        (r"(?:porn|porno|pornography|erotica?|orgasm|blowjob|masturbat\w+|hardcore sex)", 0.65),
        (r"(?:have|having|had) sex", 0.5),
        (r"(?:nude|naked|sexual|sexually|sexy|genitals|nipples)", 0.35),
        (r"(?:explicit|graphic) sex(?:ual)?", 0.5),
    ),
    "sexual/minors": (
        (rf"{_SEX}(?: \w+){{0,4}} {_MINOR}", 0.85),
        (rf"{_MINOR}(?: \w+){{0,4}} {_SEX}", 0.85),
        (r"(?:child porn|child pornography|lolicon|jailbait)", 0.9),
    ),
    "violence": (
        (rf"{_I_WILL} {_HARM} (?:you|your|him|her|them|everyone|somebody|someone|people)", 0.8),
        (
            rf"(?:kill|murder|massacre|slaughter|behead|execute|torture)(?:s|ed|ing)? {_SOMEBODY}",
            0.65,
        ),
        (r"(?:kill|murder|massacre|slaughter|behead|torture|stab|shoot)(?:s|ed|ing)?", 0.3),
        (r"(?:bomb|gun|knife|weapon|blood|corpse)s?", 0.15),
    ),
    "violence/graphic": (
        (r"(?:dismember\w*|disembowel\w*|decapitat\w+|mutilat\w+|eviscerat\w+|gore|gory)", 0.65),
        (
            r"(?:blood|guts|brains|entrails|intestines)(?: \w+){0,3} (?:everywhere|spill\w*|splatter\w*|spray\w*|gush\w*)",
            0.7,
        ),
        (r"(?:severed|rotting|bloody|mangled) (?:head|limb|body|corpse|arm|leg|hand|flesh)s?", 0.65),
    ),
}

_COMPILED = {
    category: tuple((re.compile(rf"(?<!\w)(?:{phrase})(?!\w)"), weight) for phrase, weight in phrases)
    for category, phrases in PHRASES.items()
}
_SPACE = re.compile(r"\s+")


async def moderate_in_worker(texts: Sequence[str], pool: WorkerPool = POOL) -> tuple[TextVerdict, ...]:
    """`moderate` without blocking the event loop: long inputs go to a worker process. Raises as `WorkerPool.run`."""
    if sum(map(len, texts)) + len(texts) * EACH <= MAX_CHARACTERS_IN_LOOP:
        return moderate(texts)
    return await pool.run(moderate, tuple(texts))


def moderate(texts: Sequence[str]) -> tuple[TextVerdict, ...]:
    """One verdict for each text."""
    return tuple(map(judge, texts))


def judge(text: str) -> TextVerdict:
    """The verdict on one text; deterministic."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    folded = _SPACE.sub(" ", folded)
    scores = {category: _compute_score(folded, category) for category in CATEGORIES}
    return TextVerdict(
        scores=scores, flagged=frozenset(name for name, score in scores.items() if score >= FLAG_THRESHOLD)
    )


def _compute_score(text: str, category: str) -> float:
    left = 1.0
    for phrase, weight in _COMPILED[category]:
        for _, _found in zip(range(ONCE_MORE), phrase.finditer(text), strict=False):
            left *= 1 - weight
    return round(1 - left, 6)
