"""Names: of one form, never the same twice, also after a fork and in threads."""

import os
import re
from concurrent.futures import ThreadPoolExecutor

from tornado_gate.codec.ids import make_unique_id


def test_a_name_is_32_hexadecimal_digits_and_never_comes_again():
    names = [make_unique_id() for _ in range(2000)]

    assert len(set(names)) == 2000
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)


def test_threads_never_get_the_same():
    with ThreadPoolExecutor(4) as pool:
        found = [
            name for names in pool.map(lambda _: [make_unique_id() for _ in range(1000)], range(8)) for name in names
        ]

    assert len(set(found)) == len(found)


def test_a_child_does_not_give_the_names_of_its_parent():
    make_unique_id()  # so that some are waiting
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, make_unique_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading, "rb") as told:
        theirs = told.read().decode()

    assert theirs not in {make_unique_id() for _ in range(600)}
