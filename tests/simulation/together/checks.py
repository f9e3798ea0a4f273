"""What must hold of what clients were told, against what is in the logs in the end."""

from collections.abc import Collection, Mapping

from tests.simulation.together.programs import Violation
from tests.simulation.together.workers import Group, ProducerLife

Values = Mapping[int, list[bytes]]
"""By partition, the value at each offset."""


def check_producer(
    life: ProducerLife, logs: Mapping[str, Values], *, remade: Collection[str]
) -> None:
    """Acknowledged is there, once and in order; failed as certain is nowhere; all has ended.

    What was acknowledged in a topic that was remade may have gone with it.
    """
    prefix = life.name.encode() + b"-"
    places: dict[bytes, list[tuple[str, int, int]]] = {}
    for topic, partitions in logs.items():
        for index, values in partitions.items():
            for offset, value in enumerate(values):
                if value.startswith(prefix):
                    places.setdefault(value, []).append((topic, index, offset))
    newest: dict[tuple[str, int], int] = {}
    for sent in life.sent:
        group, position = sent.delivery[0].resolve(sent.delivery[1])
        group.was_seen = True
        found = places.get(sent.value, [])
        if life.settings["enable_idempotence"] and len(found) > 1:
            raise Violation(f"{sent.value!r} is there twice: {found}")
        if not group.is_done:
            if not life.was_killed:
                raise Violation(f"{sent.value!r} never ends")
            continue
        if group.error is not None:
            if found and not getattr(group.error, "is_in_doubt", False):
                raise Violation(f"{sent.value!r} failed for certain, {group.error!r}: {found}")
            continue
        if sent.topic in remade:
            continue
        # The broker does not tell where a repetition is that it has known for long.
        is_known = group.base_offset >= 0
        place = (sent.topic, group.partition, group.base_offset + position)
        if not found or (is_known and place not in found):
            raise Violation(f"{sent.value!r} was acknowledged at {place} and is {found}")
        if is_known and life.keeps_order:
            if place[2] <= newest.get(place[:2], -1):
                raise Violation(f"{sent.value!r} at {place} was overtaken")
            newest[place[:2]] = place[2]


def check_commit(group: Group, partition: int, offset: int) -> None:
    """What is committed was handed out."""
    handed = group.handed[partition]
    missing = [at for at in range(offset) if at not in handed]
    if missing:
        raise Violation(
            f"{group.topic}-{partition}: {group.name} has committed {offset}, nobody was handed"
            f" {missing[:10]}"
        )


def check_group(group: Group, logs: Values) -> None:
    """All that is there was handed out, as it is; nothing else was."""
    for index, values in logs.items():
        handed = group.handed[index]
        for offset, value in enumerate(values):
            if handed.get(offset) != value:
                raise Violation(
                    f"{group.topic}-{index}: {group.name} was handed {handed.get(offset)!r} at"
                    f" {offset}, where {value!r} is"
                )
        beyond = [offset for offset in handed if offset >= len(values)]
        if beyond:
            raise Violation(f"{group.topic}-{index}: {group.name} was handed {beyond[:10]}")
