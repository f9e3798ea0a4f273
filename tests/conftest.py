"""Settings of all tests: Hypothesis must not judge their speed, machines that run them are busy.

In CI the same examples are drawn each time, so that a run there tells about the change in hand;
everywhere else new ones are, and what they find is kept as an `@example`.
"""

import os

from hypothesis import settings

settings.register_profile("busy machine", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("busy machine")
