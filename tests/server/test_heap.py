"""What a process does with memory."""

import platform
import subprocess
import sys

KEEPING = """
import resource, sys
from tornado_gate.server import heap
kept = heap.retain_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytearray(5_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(kept, faults())
"""
LEAVING = """
import gc
from tornado_gate.server import heap
gc.disable()
heap.reduce_garbage_collection()
print(gc.isenabled(), gc.get_freeze_count() > 1000, gc.get_threshold() == heap.GARBAGE_THRESHOLDS)
"""


def said_by(program: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_what_a_long_body_had_is_there_for_the_next_where_the_allocator_can_be_told():
    kept, faults = said_by(KEEPING)

    assert kept == str(platform.libc_ver()[0] == "glibc")
    assert kept == "False" or int(faults) < 1220  # the pages of one of the twenty


def test_the_collector_looks_at_what_comes_after_the_start_and_seldom():
    assert said_by(LEAVING) == ["True", "True", "True"]


ASIDE = """
import gc
from tornado_gate.server import heap
heap.reduce_garbage_collection()
collected = []
gc.callbacks.append(lambda phase, info: collected.append(info["generation"]))
frozen = gc.get_freeze_count()
with heap.suspend_garbage_collection():
    collected.clear()
    made = [[n] for n in range(50_000)]
print(collected == [], gc.isenabled(), gc.get_freeze_count() - frozen >= 50_000)
"""


def test_what_a_reload_makes_is_looked_at_by_no_collection():
    assert said_by(ASIDE) == ["True", "True", "True"]
