"""For every test below: how long an example takes to make or to run is no verdict, for machines differ and are busy.

Each run tries other examples, so that many short runs find what one long run does. PYTEST_ARGS=--hypothesis-profile=thorough
makes a long one.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("house", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("house"), max_examples=1000)
settings.load_profile("house")
