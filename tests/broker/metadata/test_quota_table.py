"""The table of quotas: like a dictionary, which it is compared with, and never changed."""

import random

from barnabas_broker.metadata.quota_table import QuotaTable
from barnabas_broker.metadata.records import QuotaEntity
from tests.support.other_hashes import printed_with_other_hashes


def entity(number: int) -> QuotaEntity:
    kind = ("user", "client-id", "ip")[number % 3]
    return ((kind, None if number < 3 else f"n{number}"),)


def test_a_table_is_what_a_dictionary_would_be_and_earlier_ones_stay() -> None:
    """CTL-12: over many changes; an entity without quotas is not in it."""
    choose = random.Random(7)
    table, expected = QuotaTable(), dict[QuotaEntity, dict[str, float]]()
    earlier = []
    for _ in range(300):
        changes = {
            entity(choose.randrange(400)): {"request_percentage": float(choose.randrange(1, 9))}
            if choose.random() < 0.6
            else dict[str, float]()
            for _ in range(choose.randrange(1, 6))
        }
        earlier.append((table, dict(expected)))
        table = table.updated(changes.items())
        expected.update(changes)
        expected = {one: limits for one, limits in expected.items() if limits}
        assert table == expected
        assert len(table) == len(expected) == len(list(table))
    for old, was in earlier:
        assert old == was
    assert table.get(entity(999)) is None
    assert QuotaTable.of(table) is table
    assert QuotaTable.of(expected) == table


def test_the_order_is_the_same_in_every_process() -> None:
    """CTL-12: snapshots of one image are the same bytes on every broker."""
    code = (
        "from barnabas_broker.metadata.quota_table import QuotaTable;"
        "names = [((('user', f'u{n}'),), {'a': 1.0}) for n in range(50)];"
        "print(list(QuotaTable().updated(names)))"
    )
    orders = printed_with_other_hashes(code)
    assert len(orders) == 1
