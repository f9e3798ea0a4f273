"""What must hold at the end of a story."""

from collections import Counter
from typing import TYPE_CHECKING

from tests.simulation.client.kafka import Kafka
from tests.simulation.client.log import Log

if TYPE_CHECKING:
    from tests.simulation.client.members import GroupStory
    from tests.simulation.client.story import ProducerStory


def check_producer(story: "ProducerStory", kafka: Kafka) -> None:
    """Acknowledged is there, once and in order; failed as certain is nowhere; all has ended."""
    places: dict[bytes, list[tuple[Log, int]]] = {}
    for log in kafka.all_logs():
        for offset, value in log.values():
            if value.startswith(story.name.encode() + b"-"):
                places.setdefault(value, []).append((log, offset))
    ordered = story.is_idempotent or story.settings["max_in_flight_requests_per_connection"] == 1
    newest: dict[tuple[int, str], tuple[int, int]] = {}
    for sent in story.sent:
        group, position = sent.delivery[0].resolve(sent.delivery[1])
        group.was_seen = True
        found = places.get(sent.value, [])
        if story.is_idempotent:
            counts = Counter(id(log) for log, _ in found)
            assert max(counts.values(), default=0) <= 1, f"{sent.value!r} is there twice: {found}"
        if not group.is_done:
            assert story.was_killed, f"{sent.value!r} never ends"
            continue
        if group.error is not None:
            is_in_doubt = getattr(group.error, "is_in_doubt", False)
            assert is_in_doubt or not found, (
                f"{sent.value!r} failed for certain with {group.error!r} and is there"
            )
            continue
        # The broker does not tell where a repetition is that it has known for long.
        is_known = group.base_offset >= 0
        offset = group.base_offset + position
        there = [
            log
            for log, at in found
            if (at == offset or not is_known)
            and log.number == group.partition
            and log.topic == sent.topic
        ]
        if not is_known and any(
            log.topic == sent.topic and log.number == group.partition for log in kafka.graves
        ):
            # By its number alone: the topic that is gone may have had it, for all that the broker
            # says. One that tells a former topic's producers from its own would not say it.
            continue
        assert there, (
            f"{sent.value!r} was acknowledged at {group.partition}:{offset} and is"
            f" {[(log.number, at) for log, at in found] or 'nowhere'}"
        )
        if ordered and is_known:
            key = id(there[0]), sent.topic
            number, before = newest.get(key, (-1, -1))
            assert offset > before, f"record {sent.number} is before record {number}"
            newest[key] = sent.number, offset


def check_transactions(story: "ProducerStory", kafka: Kafka) -> None:
    """Committed is seen whole, aborted not at all, the rest one or the other."""
    seen: set[bytes] = set()
    for log in kafka.all_logs():
        assert not log.open_since or log in kafka.graves, f"{log.topic}-{log.number} stays open"
        seen |= {value for _, value in log.committed_values()}
    graves = {value for log in kafka.graves for _, value in log.values()}
    for number, outcome in story.outcomes.items():
        values = set()
        for sent in story.sent:
            if sent.transaction == number and sent.value not in graves:
                group, _ = sent.delivery[0].resolve(sent.delivery[1])
                if group.is_done and group.error is None:
                    values.add(sent.value)
                elif outcome == "committed":
                    raise AssertionError(f"{sent.value!r} failed, and its transaction {number} not")
        if outcome == "committed":
            assert values <= seen, f"transaction {number}: {values - seen} is not seen"
        elif outcome == "aborted":
            assert not values & seen, f"transaction {number} was aborted: {values & seen} is seen"
        else:
            assert values <= seen or not values & seen, f"half of transaction {number} is seen"


def check_groups(story: "GroupStory", kafka: Kafka) -> None:
    """Nothing was skipped, and nobody is left."""
    assert not story.violations, "\n".join(story.violations)
    for log in kafka.topics[story.topic]:
        wanted = log.committed_values() if story.is_committed else log.values()
        missing = {offset for offset, _ in wanted} - story.handed[log.number]
        assert not missing, f"{story.topic}-{log.number}: nobody was handed {sorted(missing)}"
    members = kafka.group(story.name).member_ids
    static = [m for m in members if kafka.group(story.name).members.get(m)]
    assert not [m for m in members if m not in static or not story.has_static], (
        f"left in the group: {members}"
    )
