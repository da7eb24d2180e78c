"""Limits on one timer: told once, in time, in order; none that was taken back; nothing left behind."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.streams.timer_wheel import SLOTS_PER_SECOND, TimerWheel, get_wheel


class Clock:
    """A loop whose time is set by hand."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def time(self):
        return self.now

    def call_at(self, when, callback):
        timer = Timer(when, callback)
        self.timers.append(timer)
        return timer

    def go_to(self, time):
        while waiting := [one for one in self.timers if not one.gone and one.when <= time]:
            first = min(waiting, key=lambda one: one.when)
            first.gone = True
            self.now = max(self.now, first.when)
            first.callback()
        self.now = time

    @property
    def open_timers(self):
        return [one for one in self.timers if not one.gone]


class Timer:
    def __init__(self, when, callback):
        self.when, self.callback, self.gone = when, callback, False

    def cancel(self):
        self.gone = True


class Alarm:
    def __init__(self, clock):
        self.clock, self.rang = clock, []

    def on_timer(self):
        self.rang.append(self.clock.now)


@given(st.lists(st.tuples(st.floats(0, 700), st.booleans()), max_size=60))
def test_each_is_told_once_and_never_too_early_and_hardly_too_late(asked):
    clock = Clock()
    turning = TimerWheel(clock)
    alarms = [(Alarm(clock), when, keep) for when, keep in asked]
    slots = [turning.add(when, alarm) for alarm, when, _ in alarms]
    for slot, (alarm, _, keep) in zip(slots, alarms, strict=True):
        if not keep:
            turning.remove(slot, alarm)

    clock.go_to(1000)

    for alarm, when, keep in alarms:
        if keep:
            assert len(alarm.rang) == 1
            assert when <= alarm.rang[0] <= when + 1 / SLOTS_PER_SECOND
        else:
            assert not alarm.rang
    assert not clock.open_timers
    assert turning.is_empty


def test_a_thousand_limits_that_are_taken_back_need_one_timer():
    clock = Clock()
    turning = TimerWheel(clock)
    for number in range(1000):
        clock.now = number / 100
        alarm = Alarm(clock)
        turning.remove(turning.add(clock.now + 60, alarm), alarm)

    assert len(clock.timers) == 1
    assert turning.is_empty


def test_a_timer_that_an_earlier_limit_replaces_is_cancelled():
    clock = Clock()
    turning = TimerWheel(clock)
    for when in (50, 40, 45, 30):
        turning.add(when, Alarm(clock))
        assert len(clock.open_timers) == 1
    assert clock.open_timers[0].when == pytest.approx(30, abs=1 / SLOTS_PER_SECOND)


def test_one_that_sets_its_next_limit_while_it_is_told_is_told_again():
    clock = Clock()
    turning = TimerWheel(clock)

    class Again(Alarm):
        def on_timer(self):
            super().on_timer()
            if len(self.rang) < 3:
                turning.add(clock.now + 1, self)

    alarm = Again(clock)
    turning.add(1, alarm)
    clock.go_to(100)

    assert len(alarm.rang) == 3


def test_what_is_removed_while_its_neighbours_are_told_stays_silent():
    clock = Clock()
    turning = TimerWheel(clock)
    late = Alarm(clock)
    slot = turning.add(2, late)

    class Remover(Alarm):
        def on_timer(self):
            turning.remove(slot, late)

    turning.add(1, Remover(clock))
    clock.go_to(10)

    assert not late.rang


def test_of_two_with_one_time_the_one_that_the_other_removes_stays_silent():
    clock = Clock()
    turning = TimerWheel(clock)

    class Remover(Alarm):
        def on_timer(self):
            super().on_timer()
            for other in alarms:
                turning.remove(slot, other)

    alarms = [Remover(clock), Remover(clock)]
    (slot,) = {turning.add(1, alarm) for alarm in alarms}
    clock.go_to(10)

    assert sum(len(alarm.rang) for alarm in alarms) == 1


def test_what_has_arrived_while_the_process_did_not_run_comes_before_the_end_of_a_time():
    clock = Clock()
    turning = TimerWheel(clock)
    answered, silent = Alarm(clock), Alarm(clock)
    slot = turning.add(1, answered)
    turning.add(1, silent)

    clock.now = 20.0  # the timer of 1 fires now
    clock.go_to(20.0)
    turning.remove(slot, answered)
    assert silent.rang == []
    clock.go_to(21.0)

    assert not answered.rang
    assert silent.rang == [pytest.approx(20.0, abs=2 / SLOTS_PER_SECOND)]
    assert not clock.open_timers


def test_one_that_fails_does_not_silence_the_others(caplog):
    clock = Clock()
    turning = TimerWheel(clock)

    class Failing(Alarm):
        def on_timer(self):
            raise RuntimeError("no")

    others = [Alarm(clock) for _ in range(8)]
    for alarm in [*others[:4], Failing(clock), *others[4:]]:
        turning.add(1, alarm)
    late = Alarm(clock)
    turning.add(5, late)
    clock.go_to(10)

    assert all(len(alarm.rang) == 1 for alarm in [*others, late])
    assert "a timeout callback failed" in caplog.text


@pytest.mark.parametrize("loops", [2])
def test_each_loop_has_its_own(loops):
    async def found():
        assert get_wheel() is get_wheel()
        return get_wheel()

    made = [asyncio.run(found()) for _ in range(loops)]

    assert made[0] is not made[1]
    assert made[0].loop is not made[1].loop
