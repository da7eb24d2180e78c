"""How accounts share a store: the one that holds most loses first."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tornado_gate.account_shares import evict, may_hold


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
