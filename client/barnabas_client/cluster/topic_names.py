"""Which names topics can have: said at once, before a broker is asked.

Source: Kafka's rules for topic names. Invariant: a name that passes can be sent in any request, so
that a mistake in one call never spoils the metadata of other topics.
"""

from __future__ import annotations

import re
from typing import Final

from barnabas_client.errors import UsageError

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_topic_name(name: object) -> None:
    """Return if a topic can be called so.

    Raises: UsageError saying what a name looks like.
    """
    if isinstance(name, str) and _LEGAL.fullmatch(name) and name not in (".", ".."):
        return
    if not isinstance(name, str):
        raise UsageError(f"a topic name is text, not {name!r}")
    raise UsageError(
        f"no topic can be called {name!r}: a name has 1 to 249 letters (a-z, A-Z), digits, "
        "'.', '_' or '-', and is not '.' or '..'"
    )
