"""Makes `format_anthropic_calls` importable: in this folder there is no package, because the core's is called `tests` too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
