"""How accounts share a resource: the bound of all, the share of one, and who loses first in a store that evicts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.account_shares import AccountShares, FixedShares, evict, may_hold


def lost(
    held: Mapping[str, list[int]], excess: int, *, in_use: frozenset[str] = frozenset(), writer: str | None = None
) -> list[str]:
    """The accounts that lose an item, in this order; the items of `in_use` cannot be removed."""
    found: list[str] = []

    def remove(account: str) -> bool:
        if account not in in_use:
            found.append(account)
        return account not in in_use

    sums = {account: sum(sizes) for account, sizes in held.items()}
    evict(excess, sums, lambda account: ((size, account) for size in held[account]), remove, writer)
    return found


def test_the_account_that_holds_most_loses_until_there_is_room() -> None:
    assert lost({"small": [1], "large": [4, 4, 4]}, 5) == ["large", "large"]
    assert lost({"small": [1], "large": [4, 4, 4]}, 0) == []


@pytest.mark.parametrize("accounts", [2, 3, 10])
def test_an_account_below_an_equal_share_loses_nothing(accounts: int) -> None:
    limit = 1000
    held = {f"large{number}": [10] * 200 for number in range(accounts - 1)} | {"small": [limit // accounts - 1]}
    total = sum(map(sum, held.values()))
    assert "small" not in lost(held, total - limit)


def test_what_is_in_use_counts_for_its_account_but_others_are_not_blocked() -> None:
    held = {"large": [9, 9], "middle": [3, 3], "small": [1]}
    assert lost(held, 3, in_use=frozenset({"large"})) == ["middle"]


def test_a_writer_takes_nothing_from_an_account_that_holds_less() -> None:
    held = {"large": [9, 9], "small": [1]}
    assert lost(held, 3, in_use=frozenset({"large"}), writer="large") == []


def test_an_account_of_a_store_that_keeps_leaves_as_much_as_it_holds() -> None:
    assert may_hold(50, 0, 0, 100)
    assert not may_hold(51, 0, 0, 100)
    assert may_hold(25, 0, 50, 100), "an account that fills its half leaves room for another"
    assert not may_hold(1, 50, 50, 100)


def test_a_free_share_is_as_large_as_what_is_left() -> None:
    shares = AccountShares(100)
    assert not shares.try_hold("a", 51)
    assert shares.try_hold("a", 50)
    assert not shares.try_hold("a", 1)
    assert not shares.try_hold("b", 26)
    assert shares.try_hold("b", 25)
    assert not shares.try_hold("b", 1)
    assert (shares.held, shares.count_held("a"), shares.count_held("b"), shares.count_held("c")) == (75, 50, 25, 0)


def test_the_total_and_the_share_are_checked_apart() -> None:
    shares = AccountShares(100)
    shares.hold("a", 60)  # an exception of the holder's own
    assert shares.fits_total(40)
    assert not shares.fits_total(41)
    assert shares.fits_share("b", 20)
    assert not shares.fits_share("b", 21)
    shares.total = 99
    assert not shares.fits_total(40)


def test_an_account_that_releases_makes_room_for_the_others_and_itself() -> None:
    shares = AccountShares(100)
    release = shares.keep("a", 50)
    assert release is not None
    assert shares.keep("a", 1) is None
    assert not shares.try_hold("b", 26)
    release()
    assert shares.try_hold("b", 50)
    assert not shares.try_hold("a", 26)
    assert shares.try_hold("a", 25)


def test_a_refused_holder_holds_nothing_and_what_is_released_leaves_no_account() -> None:
    shares = AccountShares(10)
    with pytest.raises(ConnectionError), ExitStack() as closing:
        release = shares.keep("a", 5)
        assert release is not None
        closing.callback(release)
        assert shares.keep("b", 3) is None
        raise ConnectionError
    assert (shares.held, shares._held_by) == (0, {})
    shares.hold("a", 0)
    shares.release("a", 0)
    assert (shares.held, shares._held_by) == (0, {})


def test_each_change_is_reported_with_the_sum_of_all_accounts() -> None:
    reported: list[int] = []
    shares = AccountShares(100, reported.append)
    shares.hold("a", 10)
    assert shares.try_hold("b", 20)
    assert not shares.try_hold("b", 60)
    shares.release("a", 4)
    shares.release("b", 20)
    assert reported == [10, 30, 26, 6]


def test_a_fixed_share_is_a_quarter() -> None:
    shares = FixedShares(100)
    assert shares.try_hold("a", 24)
    assert not shares.try_hold("a", 2)
    assert shares.try_hold("a", 1)
    for account in "bcd":
        assert shares.try_hold(account, 25)
    assert not shares.try_hold("e", 1), "nothing of the total is left"
    shares.release("b", 25)
    assert not shares.try_hold("e", 26)
    assert shares.try_hold("e", 25)


def test_more_than_a_fixed_bound_is_held_alone() -> None:
    shares = FixedShares(100)
    assert shares.try_hold("a", 101), "nothing else is held"
    assert not shares.try_hold("b", 1)
    shares.release("a", 101)
    assert shares.try_hold("b", 26), "the account holds nothing else"
    assert not shares.try_hold("b", 1)
    assert shares.try_hold("c", 74)
    assert not shares.try_hold("d", 1)


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 60)), max_size=40)


@pytest.mark.parametrize("kind", [AccountShares, FixedShares])
@given(steps=STEPS)
def test_whatever_two_accounts_do_the_bound_holds_and_nothing_is_left(
    kind: type[AccountShares], steps: list[tuple[str, bool, int]]
) -> None:
    shares, releases = kind(50), []
    for account, ends, size in steps:
        if ends and releases:
            releases.pop(size % len(releases))()
        elif (release := shares.keep(account, size)) is not None:
            releases.append(release)
            largest = max(shares.total, size)
            assert shares.held <= largest
            assert kind is FixedShares or shares.count_held(account) <= shares.total - shares.held
        assert shares.held == sum(map(shares.count_held, "abc"))
    for release in releases:
        release()
    assert (shares.held, shares._held_by) == (0, {})
