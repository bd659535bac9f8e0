"""Tests judge answers, not speed: no example of a property test may fail for being slow on a busy machine."""

from hypothesis import settings

settings.register_profile("traceana", deadline=None)
settings.load_profile("traceana")
