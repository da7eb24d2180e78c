"""A YAML file as plain values, with the line of every key and item. Knows nothing of what the keys mean.

Differs from `yaml.safe_load` where that bites: duplicate keys, tags and merge keys are faults; a key is the text that was
written (``on:`` is "on"); a date stays text; aliases may not multiply what a small file holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tornado_gate.config.faults import Fault, FileFaults, KeyPath

LARGEST_FILE = 16 * 1024 * 1024
MOST_VALUES = 500_000
DEEPEST = 50

_TAG = "tag:yaml.org,2002:"
_TIMESTAMP = f"{_TAG}timestamp"

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # which of the two loaders it is shows at run time only
    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in _Base.yaml_implicit_resolvers.items()
    }
