"""RE2 patterns that clients give: compiled in a few milliseconds, or refused.

RE2 takes time in proportion to pattern and text, so both are bounded: its program has an end, and
so has the number of Unicode classes, each of which is put together of hundreds of ranges before RE2
knows how large the program is. Who matches counts in steps: characters times instructions.
"""

from __future__ import annotations

import re
from typing import Any, Final

UNICODE_CLASSES_MAX: Final = 16
"""Names of topics, groups and clients are seldom other than ASCII."""
STEPS_PER_TURN: Final = 500_000
"""Of matching: some milliseconds of the loop."""
_UNICODE_CLASS: Final = re.compile(r"\\[pP]")


def compile_bounded(pattern: str, program_bytes_max: int) -> Any:
    """The pattern, compiled. Raises: ValueError for what RE2 does not take, or is too much."""
    import re2  # a library of its own, loaded when somebody gives a pattern

    if len(_UNICODE_CLASS.findall(pattern)) > UNICODE_CLASSES_MAX:
        raise ValueError(f"more than {UNICODE_CLASSES_MAX} Unicode classes")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = program_bytes_max
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(str(error)) from None


def steps_of(compiled: Any, text: str) -> int:
    """How many steps it takes at most to match a text."""
    return int(len(text) * compiled.programsize)
