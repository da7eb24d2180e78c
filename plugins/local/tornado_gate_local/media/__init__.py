"""The media that the embedded provider makes: vectors, moderation, pictures and speech.

Each maker is plain functions with no event loop, no network and no weights; `workers` runs them in other processes, where
alone Pillow, PyAV and eSpeak NG are imported. Importing anything here is cheap.
"""
