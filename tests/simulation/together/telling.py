"""Telling one story, and what came of it."""

import logging
import traceback
from collections import Counter
from typing import NamedTuple

from tests.simulation.together.story import Story

LINES_SHOWN = 80


class Told(NamedTuple):
    """What came of a story."""

    seed: int
    reason: str
    lines: list[str]
    sent: int
    handed: int
    fingerprint: int  # of who compares stories

    @property
    def counts(self) -> Counter[str]:
        """What is added up over many stories."""
        return Counter({"records sent": self.sent, "handed out": self.handed})


def tell(seed: int, *, is_compared: bool = False) -> Told:
    """Tell one story; `reason` is empty if it ends well."""
    logging.getLogger("barnabas_client").setLevel(logging.CRITICAL + 1)
    story, reason = Story(seed, is_compared=is_compared), ""
    try:
        story.run()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        name = where.filename.rpartition("/")[2]
        reason = f"{type(error).__name__}: {error} ({name}:{where.lineno})"
    sent = sum(len(life.sent) for worker in story.producers for life in worker.lives)
    handed = sum(len(values) for group in story.groups for values in group.handed.values())
    trace = story.cluster.trace
    fingerprint = trace.fingerprint if is_compared else 0
    return Told(seed, reason, trace.lines[-LINES_SHOWN:], sent, handed, fingerprint)
