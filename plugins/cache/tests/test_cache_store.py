"""The memory of the cache: bounded for all content, shared fairly, with responses that only their account can find."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate_cache.store import ENTRY_BYTES, Answer, AnswerStore

ACCOUNTS = st.sampled_from(["a", "b", "c"])
KEYS = st.binary(min_size=1, max_size=1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ACCOUNTS, KEYS, st.integers(0, 6000)),
        st.tuples(st.just("find"), ACCOUNTS, KEYS, st.just(0)),
        st.tuples(st.just("wait"), ACCOUNTS, KEYS, st.integers(0, 40)),
    ),
    max_size=60,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make_store(max_bytes: int = 8 * 1024, max_entries: int = 7) -> tuple[AnswerStore, Clock]:
    clock = Clock()
    return AnswerStore(max_bytes, max_entries, 60.0, clock), clock


def answer_of(store: AnswerStore, account: str, size: int) -> Answer:
    return Answer((account.encode() * size)[:size], {}, store.now)


@settings(max_examples=100)
@given(STEPS)
def test_the_store_keeps_its_bounds_and_its_accounts_apart(steps: list[tuple[str, str, bytes, int]]) -> None:
    store, clock = make_store()
    for kind, account, key, number in steps:
        if kind == "add":
            store.add(account, key, answer_of(store, account, number))
        elif kind == "wait":
            clock.now += number
        else:
            stored = store.find(account, key)
            assert stored is None or set(stored.body) <= set(account.encode())
            assert stored is None or clock.now - stored.stored < 60
        held = [answer for answers in store._answers.values() for answer in answers.values()]
        assert store.total_bytes == sum(answer.size for answer in held) == sum(store._held.values()) <= 8 * 1024
        assert store.entries == len(held) <= 7


def test_an_account_displaces_its_own_answers_and_none_of_a_smaller_one() -> None:
    store, _ = make_store(max_bytes=10 * (ENTRY_BYTES + 400), max_entries=100)
    store.add("small", b"kept", answer_of(store, "small", 400))
    for number in range(50):
        store.add("large", bytes([number]), answer_of(store, "large", 400))
    assert store.find("small", b"kept") is not None
    assert store.find("large", bytes([49])) is not None
    assert store.find("large", bytes([0])) is None


def test_an_answer_that_was_asked_for_stays_longer() -> None:
    store, _ = make_store(max_entries=2, max_bytes=100_000)
    for name in (b"1", b"2"):
        store.add("a", name, answer_of(store, "a", 1))
    assert store.find("a", b"1")
    store.add("a", b"3", answer_of(store, "a", 1))
    assert [store.find("a", name) is not None for name in (b"1", b"2", b"3")] == [True, False, True]


def test_arriving_answers_take_half_of_the_store_at_most() -> None:
    store, _ = make_store(max_bytes=10_000)
    assert store.reserve(5000)
    assert not store.reserve(1)
    store.release(5000)
    assert store.reserve(1)
