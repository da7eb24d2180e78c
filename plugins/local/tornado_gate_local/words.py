"""Parse a text by simple rules: words, names, numbers, sums and token counts. Pure; the work is limited.

No function reads more than `SAMPLE_CHARACTERS` of a text, except `count_tokens` (which uses the length of the rest),
`split_tokens` and `take_first_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

SAMPLE_CHARACTERS = 5_000
EXACT_CHARACTERS = 20_000  # of one request whose tokens are counted exactly
CHARACTERS_PER_TOKEN = 4

_TOKEN = re.compile(r"\s*\w{1,4}|\s*[^\w\s]|\s+")
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+|[^\W\d_]+")
_PLURAL_OF_Y = re.compile(r"(?<=\w\w)ies$")
_PLURAL = re.compile(r"(?<=\w\w[^\Ws])s$")
_NUMBER = re.compile(r"(?<![\w.])(?<!\d[-:/])-?\d{1,15}(?:\.\d{1,10})?(?!\w|[-.:/]\d)")  # no parts of dates
_TERM = r"-?\d{1,15}(?:\.\d{1,10})?"
_SIGN = r"[-+*/\u00d7\u00f7x]|plus|minus|times|divided by"
_SUM = re.compile(rf"{_TERM}(?:\s{{0,20}}(?:{_SIGN})\s{{0,20}}{_TERM}){{1,10}}")
_OPERATOR = re.compile(rf"\s{{0,20}}({_SIGN})\s{{0,20}}({_TERM})")
_OPERATORS = {"plus": "+", "minus": "-", "times": "*", "\u00d7": "*", "x": "*", "divided by": "/", "\u00f7": "/"}

_STOP_WORDS = (
    "a about all also am an and any are as ask at be by call can could current currently data do does fetch find "
    "for from function get give given gives has have help her him his how i if in info information into is it its "
    "just know let like list look make me my need no not now of off on or our out please provide provided return "
    "returns run set show so some such take tell than that the their them then there these they this to tool up us "
    "use used user using want was we were what when where which who why will with would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())


def take_sample(text: str) -> str:
    """A short text unchanged; the beginning and the end of a long one."""
    if len(text) <= SAMPLE_CHARACTERS:
        return text
    return text[: SAMPLE_CHARACTERS - 1000] + "\n" + text[-1000:]


def split_tokens(text: str) -> list[str]:
    """Split `text` into tokens; joined they give `text` again.

    A token is up to four letters or digits with the space before them, or one other character.
    """
    return _TOKEN.findall(text)


def take_first_tokens(text: str, most: int) -> list[str]:
    """At most `most` tokens from the start of `text`; the rest is not read."""
    return [match.group() for match in islice(_TOKEN.finditer(text), most)]


def count_tokens(texts: Iterable[str], exact: int = EXACT_CHARACTERS) -> int:
    """The tokens of all texts: by `split_tokens` for the first `exact` characters, then one for every four characters."""
    total = beyond = 0
    for text in texts:
        if exact > 0:
            total += len(split_tokens(text[:exact]))
        beyond += max(0, len(text) - max(0, exact))
        exact -= len(text)
    return total + -(-beyond // CHARACTERS_PER_TOKEN)


def list_words(text: str) -> list[str]:
    """The words in a sample of `text`, in order, as written."""
    return _WORD.findall(take_sample(text))


def get_stem(word: str) -> str:
    """A word in lower case and without plural ending, so that 'Cities' matches 'city'."""
    word = word.lower().removesuffix("'s").removesuffix("\u2019s")
    return _PLURAL.sub("", _PLURAL_OF_Y.sub("y", word))


def list_significant(text: str) -> list[str]:
    """The words of a sample of `text` without stop words, in order, without duplicates."""
    significant = (
        word for word in list_words(text) if word.lower() not in STOP_WORDS and (len(word) > 1 or word.isdigit())
    )
    return list(dict.fromkeys(significant))


def list_stems(text: str) -> frozenset[str]:
    return frozenset(get_stem(word) for word in list_significant(text))


def split_name(name: str) -> list[str]:
    """The words of an identifier: 'getWeather_by-city' gives get, weather, by, city."""
    return [part.lower() for part in _CAMEL.findall(name[:200])]


def list_numbers(text: str) -> list[int | float]:
    """The numbers in a sample of `text`, in order."""
    numbers = _NUMBER.findall(take_sample(text))
    return [float(number) if "." in number else int(number) for number in numbers[:100]]


def find_sum(text: str) -> str | None:
    """The first sum in a sample of `text`: '2+2' in 'What is 2+2?'."""
    match = _SUM.search(take_sample(text))
    return match.group() if match else None


def calculate(expression: str) -> str | None:
    """The result of a sum that `find_sum` found; products before sums. None for a division by zero."""
    first = re.match(_TERM, expression)
    if first is None:
        return None
    terms = [_parse_number(first.group())]
    for sign, number in _OPERATOR.findall(expression[first.end() :]):
        value = _parse_number(number)
        match _OPERATORS.get(sign, sign):
            case "+":
                terms.append(value)
            case "-":
                terms.append(-value)
            case "*":
                terms[-1] *= value
            case _:
                if value == 0:
                    return None
                terms[-1] = terms[-1] / value
    return _format_number(sum(terms))


def _parse_number(number: str) -> int | float:
    return float(number) if "." in number else int(number)


def _format_number(value: int | float) -> str:
    if isinstance(value, float):
        value = round(value, 10)
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)
