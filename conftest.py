"""For every test below: how long an example takes to make or to run is no verdict, for machines differ and are busy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
