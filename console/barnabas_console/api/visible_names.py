"""Which topics and groups a viewer sees: the history is one user's, what is told of it is not.

Invariant: of the sampler's numbers and changes a viewer gets those whose names his own lists
contain, of a group only with all of its topics; one who is the sampler's own user gets all, and he
alone settings (CON-141).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Final

from barnabas_client.admin.values.groups import GroupListing
from barnabas_client.errors import BarnabasError
from barnabas_console.history.group_samples import GroupSample
from barnabas_console.history.sampler import Sampler
from barnabas_console.history.timeline import ClusterChange
from barnabas_console.viewer import Viewer

_OTHER_RIGHTS: Final = frozenset({"setting", "kubernetes"})


async def visible_groups(viewer: Viewer) -> Mapping[str, GroupListing]:
    """The groups that the viewer may see, by name. Raises: the client's errors."""

    async def listed() -> dict[str, GroupListing]:
        return {one.group_id: one for one in await viewer.admin.groups.list()}

    return await viewer.shared("visible groups", listed)


async def visible_topics(viewer: Viewer) -> Set[str]:
    """The topics that the viewer may see, of the reading that its pages of topics show.

    Raises: the client's errors.
    """
    return await viewer.cluster.topic_names()


async def seen_samples(viewer: Viewer, sampler: Sampler) -> Mapping[str, GroupSample]:
    """The last look at those groups all of whose topics the viewer may see.

    Lag and diagnosis tell of topics. Raises: the client's errors.
    """
    samples = sampler.groups.by_id
    if viewer.is_surely(sampler.principal):
        return samples
    topics = await visible_topics(viewer)
    return {
        name: sample
        for name, sample in samples.items()
        if all(place.topic in topics for place in sample.group.places)
    }


async def visible_changes(
    viewer: Viewer, sampler_principal: str
) -> Callable[[ClusterChange], bool]:
    """Whether a viewer may be told of a change.

    What is gone is in nobody's list, so it is told to the sampler's own user alone; so are settings
    and what Kubernetes tells, which take other rights than a list does. Acts are told to who did
    them, and to who sees what they were about.
    """
    if viewer.is_surely(sampler_principal):
        return lambda change: True
    try:
        groups, topics = await visible_groups(viewer), await visible_topics(viewer)
    except BarnabasError:
        # Brokers alone are no secret to who may connect.
        groups, topics = {}, frozenset()

    def is_visible(change: ClusterChange) -> bool:
        if change.principal is not None and viewer.is_surely(change.principal):
            return True
        if change.kind in _OTHER_RIGHTS or (change.kind == "act" and not _is_about_names(change)):
            return False
        if change.group is not None and change.group not in groups:
            return False
        return all(topic in topics for topic in (*change.topics, *change.told_topics))

    return is_visible


def _is_about_names(change: ClusterChange) -> bool:
    return bool(change.topics) or change.group is not None
