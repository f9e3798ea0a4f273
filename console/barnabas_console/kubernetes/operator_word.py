"""What the operator says of brokers: whether each may be taken away now (`safeToDrain`). Pure.

It sees all topics, which the console's own user may not. Not here: what follows of its word
(`cluster/safety.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def safe_to_drain(
    broker_rows: Iterable[Mapping[str, Any]], cluster_id: str | None
) -> dict[int, bool]:
    """By the broker's number, of the rows of `broker_row` that are about this cluster.

    Where two resources are, and do not agree, it may not.
    """
    found: dict[int, bool] = {}
    for row in broker_rows:
        if not cluster_id or row["cluster_id"] != cluster_id:
            continue
        for one in row["brokers"]:
            says = one["safe_to_drain"]
            if isinstance(one["id"], int) and isinstance(says, bool):
                found[one["id"]] = found.get(one["id"], True) and says
    return found
