"""Commands of `barnabas` for people to copy, as a shell takes them apart (CON-102). Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def command_line(
    command: str, *names: str, options: Iterable[str] = (), bootstrap: str = ""
) -> str:
    """`barnabas COMMAND NAMES OPTIONS -b BOOTSTRAP`; the command is 'topic describe', for example.

    Names that begin with a dash would be taken for options: they come last, after two dashes.
    """
    words = ["barnabas", *command.split()]
    given = [*options, *(("-b", bootstrap) if bootstrap else ())]
    if any(name.startswith("-") for name in names):
        return shlex.join([*words, *given, "--", *names])
    return shlex.join([*words, *names, *given])
