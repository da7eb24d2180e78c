"""Sentences with personal data and secrets, and similar sentences without any. ``«…»`` marks values that must be found.

Card numbers are the schemes' published test numbers, IBANs the examples of the IBAN Registry, telephone numbers are
reserved for fiction. Secrets are made up.
"""

from __future__ import annotations

from typing import Final

FOUND: Final = {
    "email": (
        "Mail «alice.smith@example.com» today.", "(«bob+news@mail.example.co.uk»)",
        "mailto:«carol@example.org»?subject=x", "<«dan_99@sub.example.io»>,", "'«eve@example.com»'",
        "«o'neil@example.com»", "«jürgen@müller.example»", "«a@b.example».", "to=«frank@example.travel»;",
        "«user@xn--bcher-kva.example»", "«ann@１２３.example»", "«ｇｅｏ＠ｅｘａｍｐｌｅ．ｃｏｍ»",
        "\xabh\u200be\u200bl@exam\xadple.com\xbb", "«𝐢𝐯𝐲@example.com»",
    ),
    "phone": (
        "Call «+49 30 901820» now", "«+1 (202) 555-0143»", "«+442079460958»,", "tel:«+33-1-99-00-12-34»",
        "«+81 3 1234 5678».", "«+49 (0)30 1234567»", "«＋４９ ３０ ９０１８２０»", "«+1.202.555.0182»",
    ),
    "iban": (
        "«DE89370400440532013000»", "IBAN: «GB29 NWBK 6016 1331 9268 19».", "«FR1420041010050500013M02606»,",
        "«nl91abna0417164300»", "«CH93 0076 2011 6238 5295 7» please", "«NO93 8601 1117 947»",
        "«MT84MALT011000012345MTLCAST001S»",
    ),
    "card": (
        "«4111111111111111»", "card «4012 8888 8888 1881» exp 12/27", "«5555-5555-5555-4444»",
        "«378282246310005»", "«6011 1111 1111 1117»,", "«3530111333300000»", "«30569309025904»",
        "«2223003122003222»", "Amex «3714 496353 98431».", "«４１１１１１１１１１１１１１１１»",
    ),
    "ssn": (
        "SSN «536-22-8726»", "«219-09-1234».", "my number is «001 01 0001»",
    ),
    "secret": (
        "key=«sk-proj-abcdefGHIJKLmnopqrst0123456789»", "«AKIAIOSFODNN7EXAMPLE»",
        "token «ghp_0123456789abcdefghijABCDEFGHIJ012345»", "«xoxb-123456789012-abcdefGHIJKL»",
        "Bearer «hf_abcdefghijklmnopqrstuvwxyzABCDEFGH»", '"«AIzaSyA1234567890abcdefghijklmnopqrstuv»"',
        "«glpat-abcdefghij0123456789»", "«sk_live_4eC39HqLyjWDarjtT1zdp7dc»",
    ),
    "ip": (
        "from «192.0.2.17»:443", "«203.0.113.9».", "[«2001:db8::8a2e:370:7334»]",
        "«fe80::1ff:fe23:4567:890a»",
    ),
}  # fmt: skip
CLEAN: Final = (
    "git clone git@github.com:team/code.git", "background: url(icon@2x.png)", "npm install react@18.2.0",
    "@alice said hello @ noon", "user@localhost", "a@b", "x = y @ z", "def f(self): @property",
    "pip install pkg@latest", "logo@3x.webp", "2 + 2 = 4", "+1 for this", "C++ 20", "+10 %", "UTC+02:00",
    "1 + 123456789", "+0 123 456 789", "offset +1000", "DE12 is a road", "GB is 30 km",
    "AB12 CD34 EF56 GH78 IJ90", "DE89370400440532013001", "FR14 2004", "commit de89370400440532013000abcd",
    "1234567890123456", "4111111111111112", "id 1700000000000", "3.14159265358979323846",
    "0.4111111111111111", "order 4000000000000000000000", "ISBN 978-3-16-148410-0", "2024-05-12 10:30:00",
    "12345-67890-12345-67890", "1111111111111111", "9999 9999 9999 9999", "078-05-1120", "000-12-3456",
    "123-45-6789", "666-12-3456", "900-12-3456", "123-00-4567", "1123-45-67890", "555-0143", "12-345-6789",
    "sk-short", "task-list-of-the-week", "disk-abcdefghijklmnopqrstuvwxyz", "AKIA", "hf_model",
    "the desk-abcdefghijklmnopqrst", "npm_config_cache", "version 1.2.3.4.5", "10.0", "std::vector<int>",
    "12:30:45", "::1", "127.0.0.1", "0.0.0.0", "255.255.255.255", "256.1.1.1", "a::b", "1.2.3", "face::add",
    "10:20:30:40:50:60", "v1.2.3.4",
)  # fmt: skip
