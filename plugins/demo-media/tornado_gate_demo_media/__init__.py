"""The media of the embedded provider `tornado_gate_local`: images, videos, speech and voice sessions.

The modules have plain functions without event loop, network and weights. `tornado_gate_local.workers` runs them in worker
processes, and only these import Pillow, PyAV and eSpeak NG; every other import here is cheap. `operations` serves requests.
"""

__version__ = "0.1.0"
