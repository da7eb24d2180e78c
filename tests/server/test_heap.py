"""What a process does with memory."""

import os
import platform
import subprocess
import sys

import pytest

KEEPING = """
import resource, sys
from tornado_gate.server.process import heap
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
from tornado_gate.server.process import heap
gc.disable()
heap.reduce_garbage_collection()
print(gc.isenabled(), gc.get_freeze_count() > 1000, gc.get_threshold() == heap.GARBAGE_THRESHOLDS)
"""

SHARING = """
import ctypes, sys, threading
from tornado_gate.server.process import heap
shared = heap.share_arena()
ended = threading.Barrier(9)
def work():
    kept.append([bytes(1000 + n) for n in range(5000)])
    ended.wait()
kept = []
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
print(shared, flush=True)
if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_info"):
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.fflush.argtypes = [ctypes.c_void_p]
    standard_output = libc.fdopen(1, b"w")
    libc.malloc_info(0, standard_output)  # glibc: XML with one element `heap` for each arena
    libc.fflush(standard_output)
ended.wait()
"""


def run_program(program: str, **environment: str) -> list[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env | environment).stdout.split()


def test_what_a_long_body_had_is_there_for_the_next_where_the_allocator_can_be_told():
    kept, faults = run_program(KEEPING)

    assert kept == str(platform.libc_ver()[0] == "glibc")
    assert kept == "False" or int(faults) < 1220  # the pages of one of the twenty


def test_the_collector_looks_at_what_comes_after_the_start_and_seldom():
    assert run_program(LEAVING) == ["True", "True", "True"]


@pytest.mark.qa
def test_threads_allocate_from_one_arena_unless_the_operator_says_otherwise():
    shared, *arenas = run_program(SHARING)

    assert shared == str(platform.libc_ver()[0] == "glibc")
    assert shared == "False" or arenas.count("<heap") == 1
    if shared == "True":
        shared, *arenas = run_program(SHARING, MALLOC_ARENA_MAX="8")
        assert shared == "False"
        assert arenas.count("<heap") > 1


ASIDE = """
import gc, weakref
from tornado_gate.server.process import heap
heap.reduce_garbage_collection()
collected = []
gc.callbacks.append(lambda phase, info: collected.append(info["generation"]))
frozen = gc.get_freeze_count()
class Node:
    pass
def make_cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)
with heap.shorten_garbage_collection():
    collected.clear()
    made = [([n], make_cycle()) for n in range(50_000)]
    while collected.count(0) < 30:  # otherwise the next generation is collected after 20
        made.append([[n] for n in range(1000)])
within = set(collected)
kept = sum(type(one) is tuple and one[1]() is not None for one in made)
print(within, gc.get_threshold() == heap.GARBAGE_THRESHOLDS, gc.get_freeze_count() - frozen >= 50_000, kept < 50)
"""


def test_what_a_reload_makes_is_looked_at_by_short_collections_only_and_no_garbage_stays():
    assert run_program(ASIDE) == ["{0}", "True", "True", "True"]
