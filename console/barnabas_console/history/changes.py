"""What has become otherwise between two looks at the cluster, as few changes in words. Pure, but
that of all topics it is found in slices of the loop.

Partitions that changed alike are one change: a broker that stops moves a thousand leaders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from barnabas_client.admin.values.cluster import ClusterDescription
from barnabas_client.facts.group_diagnosis import Finding, State
from barnabas_client.facts.group_observation import GroupObservation
from barnabas_console.history.timeline import ClusterChange
from barnabas_console.loop_slices import LoopSlices
from barnabas_protocol.ids import TopicPartition

NO_LEADER: Final = -1
_NAMES_MAX: Final = 3
#: Of one change, so many topics are kept to show it on their pages.
_TOPICS_MAX: Final = 20
# Words that are news when a group comes to them or leaves them.
_BAD: Final = frozenset({State.CRITICAL, State.WARNING})


_Key = TypeVar("_Key")
_Places = defaultdict[_Key, list[TopicPartition]]
"""Partitions by how they changed."""


class Leadership(NamedTuple):
    """Leader and in-sync replicas of each partition of a topic, in order; -1 is no leader."""

    leaders: tuple[int, ...]
    in_sync: tuple[tuple[int, ...], ...]


def cluster_changes(before: ClusterDescription, after: ClusterDescription) -> list[ClusterChange]:
    """Brokers that came, went or were fenced, and another controller."""
    old = {broker.node_id: broker.is_fenced for broker in before.brokers}
    new = {broker.node_id: broker.is_fenced for broker in after.brokers}
    changes = [
        ClusterChange(kind="broker", subject=str(node_id), words="gone", state="critical")
        for node_id in sorted(old.keys() - new.keys())
    ]
    for node_id, is_fenced in sorted(new.items()):
        if node_id not in old:
            words = "registered, not ready yet" if is_fenced else "ready"
        elif is_fenced == old[node_id]:
            continue
        else:
            words = "fenced" if is_fenced else "ready again"
        state = "warning" if is_fenced else "fine"
        changes.append(ClusterChange(kind="broker", subject=str(node_id), words=words, state=state))
    if before.controller_id != after.controller_id:
        known = after.controller_id is not None
        changes.append(
            ClusterChange(
                kind="controller",
                subject=str(after.controller_id) if known else "none",
                words=f"broker {after.controller_id} is the controller now"
                if known
                else "no controller",
                state="working" if known else "critical",
            )
        )
    return changes


async def topic_changes(
    before: Mapping[str, Leadership], after: Mapping[str, Leadership], slices: LoopSlices
) -> list[ClusterChange]:
    """Topics that came and went, and partitions with another leader or other in-sync replicas."""
    changes = _topic_names(after.keys() - before.keys(), "created", "fine")
    changes += _topic_names(before.keys() - after.keys(), "deleted", "working")
    leaders: _Places[tuple[int, int]] = defaultdict(list)
    left: _Places[int] = defaultdict(list)
    joined: _Places[int] = defaultdict(list)
    await slices.pause()
    known = sorted(before.keys() & after.keys())
    await slices.pause()
    async for names in slices.pieces(known):
        for name in names:
            old, new = before[name], after[name]
            if old is new or old == new:
                continue
            if len(new.leaders) != len(old.leaders):
                words = f"has {len(new.leaders)} partitions, had {len(old.leaders)}"
                change = ClusterChange(kind="topic", subject=name, words=words, topics=(name,))
                changes.append(change)
            _add_moves(name, old, new, leaders)
            _add_in_sync(name, old, new, left, joined)
    return changes + _changes_of_places(leaders, left, joined)


class SeenGroup(NamedTuple):
    """What of a group is news when it changes."""

    state: str
    members: Mapping[str, str]
    finding: Finding
    topics: tuple[str, ...] = ()

    @classmethod
    def of(cls, group: GroupObservation, finding: Finding) -> SeenGroup:
        """Of what was seen, and the first thing to say of it."""
        members = {member.member_id: member.client_id for member in group.members}
        topics = tuple(sorted({place.topic for place in group.places}))
        return cls(group.state, members, finding, topics)


def group_changes(
    before: Mapping[str, SeenGroup], after: Mapping[str, SeenGroup]
) -> list[ClusterChange]:
    """Groups that came and went, members that did, and troubles that began and ended."""
    changes = [
        ClusterChange(kind="group", subject=name, words="gone", group=name)
        for name in sorted(before.keys() - after.keys())
    ]
    for name, new in sorted(after.items()):
        old = before.get(name)
        if old is None:
            changes.append(ClusterChange(kind="group", subject=name, words="new", group=name))
            continue
        came = _named(new.members[one] for one in new.members.keys() - old.members.keys())
        went = _named(old.members[one] for one in old.members.keys() - new.members.keys())
        words = [f"{came} joined"] * bool(came) + [f"{went} left"] * bool(went)
        if words:
            state = "working" if new.members else "warning"
            text = ", ".join(words) + ("" if new.members else ": no members")
            changes.append(
                ClusterChange(kind="group", subject=name, words=text, state=state, group=name)
            )
        if (old.finding.rule, old.finding.state) == (new.finding.rule, new.finding.state):
            continue
        is_bad, was_bad = new.finding.state in _BAD, old.finding.state in _BAD
        # That members went is told above.
        if is_bad and not (words and new.finding.rule == "no_members"):
            changes.append(
                ClusterChange(
                    kind="group",
                    subject=name,
                    words=new.finding.evidence,
                    state=str(new.finding.state),
                    group=name,
                    told_topics=new.topics,
                )
            )
        elif was_bad and not is_bad and new.finding.state is not State.UNKNOWN:
            words_ = f"Over: {old.finding.evidence}"
            changes.append(
                ClusterChange(
                    kind="group",
                    subject=name,
                    words=words_,
                    state="fine",
                    group=name,
                    told_topics=old.topics,
                )
            )
    return changes


def setting_changes(
    before: Mapping[str, Mapping[str, str | None]], after: Mapping[str, Mapping[str, str | None]]
) -> list[ClusterChange]:
    """Settings by resource (`topic orders`, `broker 1`) that were set, changed or taken off."""
    changes = []
    for resource in sorted(before.keys() & after.keys()):
        old, new = before[resource], after[resource]
        for name in sorted(old.keys() | new.keys()):
            if (name in old, old.get(name)) == (name in new, new.get(name)):
                continue
            words = f"{name}: {_value(old, name)} → {_value(new, name)}"
            kind, _, thing = resource.partition(" ")
            topics = (thing,) if kind == "topic" else ()
            changes.append(
                ClusterChange(kind="setting", subject=resource, words=words, topics=topics)
            )
    return changes


def _value(settings: Mapping[str, str | None], name: str) -> str:
    if name not in settings:
        return "default"
    value = settings[name]
    return "(hidden)" if value is None else value or "(empty)"


def _add_moves(
    name: str, old: Leadership, new: Leadership, leaders: _Places[tuple[int, int]]
) -> None:
    """Note the partitions of a topic that have another leader."""
    for number, (was, is_) in enumerate(zip(old.leaders, new.leaders, strict=False)):
        if was != is_:
            leaders[was, is_].append(TopicPartition(name, number))


def _add_in_sync(
    name: str, old: Leadership, new: Leadership, left: _Places[int], joined: _Places[int]
) -> None:
    """Note the partitions of a topic that have other in-sync replicas."""
    for number, (had, has) in enumerate(zip(old.in_sync, new.in_sync, strict=False)):
        if had == has:
            continue
        for node_id in set(had) - set(has):
            left[node_id].append(TopicPartition(name, number))
        for node_id in set(has) - set(had):
            joined[node_id].append(TopicPartition(name, number))


def _changes_of_places(
    leaders: _Places[tuple[int, int]], left: _Places[int], joined: _Places[int]
) -> list[ClusterChange]:
    """A change for all partitions that changed alike."""
    changes = []
    for (was, is_), places in sorted(leaders.items()):
        words = f"no leader, was {was}" if is_ == NO_LEADER else f"leader {is_}, was {was}"
        if was == NO_LEADER:
            words = f"leader {is_} again"
        state = "critical" if is_ == NO_LEADER else "working"
        changes.append(_of_places("leader", places, words, state))
    for node_id, places in sorted(left.items()):
        changes.append(_of_places("isr", places, f"broker {node_id} out of sync", "warning"))
    for node_id, places in sorted(joined.items()):
        changes.append(_of_places("isr", places, f"broker {node_id} in sync", "fine"))
    return changes


def _topic_names(names: Iterable[str], words: str, state: str) -> list[ClusterChange]:
    listed = sorted(names)
    if len(listed) <= _NAMES_MAX:
        return [
            ClusterChange(kind="topic", subject=name, words=words, state=state, topics=(name,))
            for name in listed
        ]
    some = tuple(listed[:_TOPICS_MAX])
    subject = f"{len(listed):,} topics"
    return [ClusterChange(kind="topic", subject=subject, words=words, state=state, topics=some)]


def _of_places(kind: str, places: list[TopicPartition], words: str, state: str) -> ClusterChange:
    topics = tuple(_some_topics(places))
    subject = (
        ", ".join(map(str, places)) if len(places) <= _NAMES_MAX else f"{len(places):,} partitions"
    )
    return ClusterChange(kind=kind, subject=subject, words=words, state=state, topics=topics)


def _some_topics(places: Iterable[TopicPartition]) -> dict[str, None]:
    """The first topics, in order; of a broker that stops there may be thousands of partitions."""
    found: dict[str, None] = {}
    for place in places:
        found[place.topic] = None
        if len(found) == _TOPICS_MAX:
            break
    return found


def _named(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = len(listed) - _NAMES_MAX
    return ", ".join(listed[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
