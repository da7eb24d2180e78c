"""The files inside JSON: data URLs and base64. The one parser of guards, formats and providers. No I/O.

Guards and translators must read the same text from the same string. Otherwise a text that a translator decodes and a guard takes
for data would reach a provider without a review. So all of them call these functions, which are strict: an ambiguous string
raises `UnreadableFile`. A translator responds to it with a 400, a required guard with a block.

The content decides the type of a file; the declared media type only makes the reading stricter. Text that is declared as sound or
as an image is still text.

Sources: RFC 2397 (data URLs), RFC 4648 (base64 and its alphabet for URLs), RFC 2046 4.1.2 (the default charset of text).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import orjson

from tornado_gate.codec.media_types import UNSPECIFIC_TYPES, normalize_media_type, sniff
from tornado_gate.errors import InvalidField

_TEXT_TYPE: Final = re.compile(
    r"text/.*|image/svg\+xml|.*\+(?:json|xml|yaml)|application/(?:json|jsonl|x-ndjson|xml|xhtml|yaml|x-yaml|toml|javascript|x-javascript|"
    r"ecmascript|typescript|x-typescript|sql|graphql|x-sh|x-httpd-php|x-python|x-tex|rtf|x-www-form-urlencoded|csv)"
)
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}", re.ASCII)
_PARAMETER: Final = re.compile(r'([\w!#$&^.+*-]{1,127})=(?:"([^"\\]{0,255})"|([^"\s]{0,255}))', re.ASCII)
_OPAQUE: Final = re.compile(r"[A-Za-z0-9+/_=-]{40,}|")
BASE64_MARK: Final = ";base64,"
_SIGNS: Final = re.compile(r"[A-Za-z0-9+/_=%-]*+")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_SPACE: Final = b" \t\r\n\f"
_LINE_SIGNS: Final = str.maketrans("", "", "\t\r\n")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_SPACE_AROUND: Final = "".join(map(chr, range(33)))
MAX_HEAD: Final = 1000
"""The maximum number of characters of a data URL before its comma."""
_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
"""Byte order marks, longer ones first."""
_CHARSETS: Final = {
    **dict.fromkeys(("utf-8", "utf8", "us-ascii", "ascii"), "utf-8"),
    **dict.fromkeys(("iso-8859-1", "latin-1", "latin1"), "latin-1"),
    **dict.fromkeys(("windows-1252", "cp1252"), "cp1252"),
    **{name: name for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")},
    **{name.replace("-le", "le").replace("-be", "be"): name for name in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")},
}  # fmt: skip
"""Charsets of declarations. Charsets with states or escapes, such as UTF-7, are not read."""
_UNMARKED: Final = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_SNIFFED_HEAD: Final = 4096
ADVICE: Final = "Send text as UTF-8, and other files with their media type and in valid base64."
_MAX_LEVELS: Final = 200
_LEAST_CHANCE: Final = 8
"""Fewer characters may look like text by chance."""
_RAW_MEDIA: Final = ("audio/", "video/", "image/", "font/", "model/")
"""Declared types whose files may have no known signature, such as samples of sound."""
_PACKED: Final = (
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
)
"""First bytes of archives and of office documents: ZIP, gzip, Compound File Binary, 7z and RAR."""


class UnreadableFile(InvalidField):
    """An error: a file of a request cannot be read in exactly one way. `reason` is the end of a sentence about the file.

    `value` is the string in the body, or its end. The readers do not have its path: `find_param` finds it.
    """

    code = "unreadable_file"

    def __init__(self, reason: str, value: str = "") -> None:
        super().__init__("", f"A file of the request cannot be read: it {reason}. {ADVICE}")
        self.reason, self.value = reason, value

    def find_param(self, body: Any) -> None:
        """Set `param` to the path of the file in the caller's body."""
        if not self.param and self.value and (path := _find_string(body, self.value, 0)) is not None:
            self.param = ".".join(path)
            self.message = f"'{self.param}' cannot be read: it {self.reason}. {ADVICE}"


def _find_string(value: Any, text: str, level: int) -> tuple[str, ...] | None:
    """Return the path of the first string that ends with a text."""
    if isinstance(value, str):
        return () if value.endswith(text) else None
    if level > _MAX_LEVELS or not isinstance(value, dict | list):
        return None
    for name, member in value.items() if isinstance(value, dict) else enumerate(value):
        if (inner_path := _find_string(member, text, level + 1)) is not None:
            return (str(name), *inner_path)
    return None


class DataUrl(NamedTuple):
    """A data URL: its media type with parameters as declared, and its data in base64 or percent-encoding."""

    declared: str
    is_base64: bool
    data: str

    @property
    def media_type(self) -> str:
        """Return the media type in lower case without parameters; "" without one."""
        return self.declared.partition(";")[0].strip().lower()

    def decode(self) -> bytes:
        """Return the bytes. Raises UnreadableFile."""
        return decode_base64(self.data, escaped=True) if self.is_base64 else unquote_to_bytes(self.data)


class TextFile(NamedTuple):
    """The text of a file. `head` precedes the data in the string; the data is base64 or percent-encoded text in `charset`.

    `others` are further readings of the same string by readers that ignore unknown characters or the declared charset.
    """

    text: str
    head: str
    is_base64: bool
    charset: str = "utf-8"
    others: tuple[str, ...] = ()

    def encode(self, text: str) -> str:
        """Return the file with another text, as it is in JSON. A character that the charset lacks becomes a question mark."""
        raw = text.encode(self.charset, "replace")
        return self.head + (base64.b64encode(raw).decode() if self.is_base64 else quote(raw))


def is_text_type(media_type: str) -> bool:
    """Return whether files of the media type are texts."""
    return _TEXT_TYPE.fullmatch(media_type.partition(";")[0].strip().lower()) is not None


def is_data(value: str) -> bool:
    """Return whether a string can be base64 or other data that is not a text."""
    return value.isascii() and value.find("@") < 0 and value.find(" ") < 0


def strip_url(value: str) -> str:
    """Return the string as readers of URLs see it (WHATWG URL, 4.4): without tabs, line breaks and controls around it."""
    return value.translate(_LINE_SIGNS).strip(_SPACE_AROUND)


def is_data_url(value: str) -> bool:
    """Return whether a reader of URLs takes the string for a data URL, in any spelling."""
    if value[:5].lower() == "data:":
        return True
    if value[:1] > " " and value[:1] not in ("d", "D"):
        return False
    return strip_url(value[:200])[:5].lower() == "data:"


def parse_data_url(value: str) -> DataUrl | None:
    """Parse a data URL; None for another string. Raises UnreadableFile for a string that is not strictly a data URL."""
    if not is_data_url(value):
        return None
    if value[:5].lower() != "data:":
        value = strip_url(value)
    comma = value.find(",", 5, MAX_HEAD)
    if comma < 0:
        raise UnreadableFile("is a data URL without a comma after its media type")
    name, *parameters = value[5:comma].split(";")
    if name and not _MEDIA_TYPE.fullmatch(name.strip()):
        raise UnreadableFile("is a data URL with an invalid media type")
    is_base64 = bool(parameters) and parameters[-1].strip().lower() == "base64"
    for parameter in parameters[: len(parameters) - is_base64]:
        if not _PARAMETER.fullmatch(parameter.strip()):
            raise UnreadableFile("is a data URL with an invalid parameter; ';base64' must be the last one")
    declared = ";".join([name.strip(), *(parameter.strip() for parameter in parameters[: len(parameters) - is_base64])])
    return DataUrl(declared, is_base64, value[comma + 1 :])


def decode_base64(text: str, *, escaped: bool = False) -> bytes:
    """Decode base64 of either alphabet, with or without padding, with white space. Raises UnreadableFile for anything else.

    `escaped`: percent-encoded characters are resolved first, as in a URL.
    """
    try:
        raw = text.encode("ascii")
    except UnicodeEncodeError:
        raise UnreadableFile("has characters that are not base64") from None
    if escaped and b"%" in raw:
        raw = unquote_to_bytes(raw)
    raw = raw.translate(_STANDARD, _SPACE)
    if not raw.endswith(b"="):
        raw += b"=" * (-len(raw) % 4)
    try:
        return binascii.a2b_base64(raw, strict_mode=True)
    except ValueError:
        raise UnreadableFile("is not valid base64") from None


def decode_text(raw: bytes, declared: str = "") -> tuple[str, str]:
    """Return the text of a file and its charset.

    A byte order mark decides, then the declared charset, then UTF-8; UTF-16 and UTF-32 without a mark are recognised by their
    zero bytes. Raises UnreadableFile.
    """
    charset = next((name for mark, name in _MARKS if raw.startswith(mark)), "")
    named = _find_charset(declared)
    if charset and named and not charset.startswith(named):
        raise UnreadableFile(f"is declared with the charset '{named}', but begins with the mark of '{charset}'")
    charset = charset or named or "utf-8"
    if charset in (
        "utf-16",
        "utf-32",
    ):  # without a mark: RFC 2781 4.3 prescribes big-endian, many programs write little-endian
        charset = _guess_charset(raw) or f"{charset}-be"
    elif charset == "utf-8" and b"\0" in raw:
        charset = _guess_charset(raw) or charset
    try:
        return raw.decode(charset), charset
    except UnicodeDecodeError:
        raise UnreadableFile(f"is not text in the charset '{charset}'") from None


def _find_charset(declared: str) -> str:
    for parameter in declared.split(";")[1:]:
        match = _PARAMETER.fullmatch(parameter.strip())
        if match and match[1].lower() == "charset":
            name = (match[2] or match[3] or "").strip().lower()
            if name not in _CHARSETS:
                raise UnreadableFile(f"has the charset '{name[:40]}', which is not supported; use UTF-8")
            return _CHARSETS[name]
    return ""


def _guess_charset(raw: bytes) -> str:
    """Return the charset of text without a mark that has zero bytes; "" if no reading of it is clean."""
    if raw.find(b"\0") < 0:
        return ""
    for name in _UNMARKED:
        try:
            text = raw.decode(name)
        except UnicodeDecodeError:
            continue
        if text and not _CONTROLS.search(text) and text.isprintable() | any(sign in text for sign in "\r\n\t"):
            return name
    return ""


def read_text_file(raw: bytes, declared: Collection[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Return the text of a file, its charset and other readings; None for a file that is not text.

    `declared` are all media types of the file in the request. Raises UnreadableFile for a file that is not text, although it is
    declared as text, or not declared. Raises it also for an unknown file that is not declared as sound, an image or a video.
    """
    types = {normalize_media_type(media_type) for media_type in declared if media_type}
    is_declared_text = any(map(is_text_type, types))
    charsets = [media_type for media_type in declared if ";" in media_type] if is_declared_text else []
    if not is_declared_text and _is_known_binary(raw):
        return None
    try:
        text, charset = decode_text(raw, charsets[0] if charsets else "")
    except UnreadableFile:
        if is_declared_text:
            raise
        text = charset = ""
    if is_declared_text or (charset and not _CONTROLS.search(text)):
        return text, charset, tuple(_read_otherwise(raw, text, [*charsets[1:], ""]))
    if any(media_type.startswith(_RAW_MEDIA) for media_type in types) and _CONTROLS.search(
        raw[:_SNIFFED_HEAD].decode("latin-1")
    ):
        return None
    reason = "is text in no known charset" if types - UNSPECIFIC_TYPES else "has no media type"
    raise UnreadableFile(f"{reason}, and its content is of no known type")


def _is_known_binary(raw: bytes) -> bool:
    """Return whether a file has the first bytes of a known type, and is not text that begins alike."""
    head = raw[:_SNIFFED_HEAD]
    if not (sniff(head) or head.startswith(_PACKED)):
        return False
    return _CONTROLS.search(head.decode("latin-1")) is not None or any(byte > 127 for byte in head)


def _read_otherwise(raw: bytes, text: str, declared: Collection[str]) -> Iterator[str]:
    """Yield readings of the bytes by readers that follow another declaration or none."""
    texts = {text}
    for media_type in declared:
        try:
            other = decode_text(raw, media_type)[0]
        except UnreadableFile:
            continue
        if other not in texts:
            texts.add(other)
            yield other


def read_data_url(value: str, declared: Collection[str] = ()) -> TextFile | None:
    """Return the text file in a data URL; None for another file. Raises UnreadableFile. `declared` are media types beside it."""
    url = parse_data_url(value)
    if url is None:
        raise UnreadableFile("is not a data URL")
    if not url.is_base64 and not url.declared:
        declared = ("text/plain", *declared)  # RFC 2397: the default
    text_file = read_text_file(url.decode(), [url.declared, *declared])
    if text_file is None:
        _check_discarding(url.data if url.is_base64 else "")
        return None
    text, charset, others = text_file
    head = value[: value.find(",") + 1]
    if url.is_base64:
        others += _read_discarding(url.data, text)
    return TextFile(text, head, url.is_base64, charset, others)


def read_base64(value: str, declared: Collection[str] = ()) -> TextFile | None:
    """Return the text file in base64; None for another file. Raises UnreadableFile."""
    text_file = read_text_file(decode_base64(value), declared)
    if text_file is None:
        _check_discarding(value)
        return None
    text, charset, others = text_file
    return TextFile(text, "", is_base64=True, charset=charset, others=others + _read_discarding(value, text))


def _read_discarding(value: str, text: str) -> tuple[str, ...]:
    """Yield the texts of a reader of the standard alphabet that ignores the signs of the other one."""
    if value.find("-") < 0 and value.find("_") < 0:
        return ()
    remaining = value.replace("-", "").replace("_", "")
    try:
        other = decode_base64(remaining[: len(remaining) // 4 * 4], escaped=True).decode("utf-8", "ignore")
    except UnreadableFile:
        return ()
    return (other,) if other != text else ()


def _check_discarding(value: str) -> None:
    """Raise UnreadableFile for a binary file that readers of the standard alphabet may read as text."""
    for other in _read_discarding(value, ""):
        if len(other) >= _LEAST_CHANCE and not _CONTROLS.search(other) and other.isascii():
            raise UnreadableFile("can be read in two ways: with the alphabet for URLs, and as text without its signs")


def list_sealed_texts(value: str) -> list[str]:
    """Return the texts that a string of data contains after all: base64 of clean text, of either alphabet. [] for other data.

    Raises UnreadableFile if the string is not base64.
    """
    raw = decode_base64(value)
    texts = list(_read_discarding(value, ""))
    with suppress(UnreadableFile):  # binary, as most signatures
        texts.append(decode_text(raw)[0])
    return [text for text in texts if text and not _CONTROLS.search(text)]


def read_encoded_json(value: str, head: str) -> TextFile | None:
    """Return the JSON text in base64 after `head`; None if all its strings are data. Raises UnreadableFile."""
    raw = decode_base64(value[len(head) :])
    try:
        strings = list(_list_strings(orjson.loads(raw)))
    except (ValueError, RecursionError):
        raise UnreadableFile("is damaged: it contains no JSON") from None
    if all(_OPAQUE.fullmatch(string) for string in strings):
        return None
    return TextFile(raw.decode("utf-8", "surrogateescape"), head, is_base64=True)


def _list_strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, including names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            if len(name) > 20:
                yield name
            yield from _list_strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _list_strings(member)


def find_embedded_files(text: str) -> Iterator[str]:
    """Yield the texts of data URLs in base64 inside a text, such as a Markdown image."""
    at = text.find(BASE64_MARK) if text.find("data:") >= 0 else -1
    while at >= 0:
        start = at + len(BASE64_MARK)
        signs = _SIGNS.match(text, start)
        end = signs.end() if signs else start
        begin = text.rfind("data:", max(0, at - MAX_HEAD), at)
        if begin >= 0 and end > start:
            try:
                text_file = read_data_url(text[begin:end])
            except UnreadableFile:
                text_file = None
            if text_file is not None:
                yield text_file.text
                yield from text_file.others
        at = text.find(BASE64_MARK, end)


def check_source(declared: str, text: str) -> None:
    """Raise UnreadableFile for a text file in base64 that cannot be read, and for invalid base64 without a media type.

    Translators call it for files of callers. Files that are declared as another type are not decoded: it would take milliseconds
    for each image, and no translator reads text in them.
    """
    is_text = is_text_type(declared)
    if is_text or normalize_media_type(declared) in UNSPECIFIC_TYPES:
        try:
            if is_text:
                read_base64(text, [declared])
            else:
                decode_base64(text)
        except UnreadableFile as fault:
            raise UnreadableFile(fault.reason, text) from None


def read_source_text(declared: str, text: str) -> str | None:
    """Return the text of a caller's file in base64, as a translator sends it; None for a file that is no text.

    Raises UnreadableFile.
    """
    try:
        file = read_base64(text, [declared])
    except UnreadableFile as fault:
        raise UnreadableFile(fault.reason, text) from None
    return None if file is None else file.text.removeprefix("\ufeff")
