"""Conversations that go on at another vendor in the middle: three strict imitations behind one gateway."""
