"""What the timeline tells of a plan that was carried out (CON-123). Pure."""

from __future__ import annotations

from barnabas_console.history.timeline import ClusterChange
from barnabas_console.plans.change import Change, Draft
from barnabas_console.plans.group_changes import DeleteGroup, ResetOffsets
from barnabas_console.plans.topic_changes import ApplyTopic, RemoveRecords, RemoveTopic


def act_of(
    change: Change, draft: Draft, principal: str, *, done: int, failed: int
) -> ClusterChange:
    """Who did what, and how much of it was done; also of one that broke off."""
    topics = (change.topic,) if isinstance(change, ApplyTopic | RemoveTopic | RemoveRecords) else ()
    group = change.group if isinstance(change, DeleteGroup | ResetOffsets) else None
    outcome = f"{failed} of {done + failed} failed" if failed else f"{done} done"
    return ClusterChange(
        kind="act",
        subject=draft.title,
        words=f"by {principal}: {outcome}",
        state="warning" if failed else "fine",
        topics=topics,
        group=group,
        principal=principal,
    )
