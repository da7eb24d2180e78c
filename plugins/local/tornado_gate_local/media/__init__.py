"""The media of the embedded provider: vectors, moderation, images, videos and speech.

The modules have plain functions without event loop, network and weights; `workers` runs them in worker processes, and
only these import Pillow, PyAV and eSpeak NG. Every other import here is cheap.
"""
