"""Make `cascade_models` importable: this folder is not a package, because the core's is called `tests` too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
