"""Settings of all tests: Hypothesis must not judge their speed, machines that run them are busy."""

from hypothesis import settings

settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")
