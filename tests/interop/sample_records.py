"""Records that every client writes and reads back, and the clients that do."""

from pathlib import Path

from tests.interop.clients.steps import Item, write_items
from tests.support.client_programs import ClientProgram, all_clients

CLIENTS = {client.name: client for client in all_clients()}
FIRST_TIMESTAMP = 1_700_000_000_000
PARTITIONS = 3
IS_IDEMPOTENT = {"none": "0", "gzip": "1", "snappy": "1", "lz4": "0", "zstd": "1"}


def sample(client: ClientProgram, codec: str, first: int) -> list[Item]:
    """Twelve records: null and empty keys, null values, headers with equal names and nulls."""
    items = []
    for index in range(first, first + 12):
        key: bytes | None = [b"key-%d" % index, None, "schlüssel".encode()][index % 3]
        value: bytes | None = f"{codec} {client.name} {index} ".encode() * 20
        headers: tuple[tuple[str, bytes | None], ...] = (("source", b"test"),)
        if index % 6 == 4:
            value = None
            key = b"deleted"
        if client.has_timestamps:
            headers = [headers, (), (("twice", b"1"), ("twice", b"2"))][index % 3]
        if client.has_null_header_values and index % 5 == 0:
            headers = (("nothing", None), *headers)
        timestamp = FIRST_TIMESTAMP + index * 1000
        items.append(Item(index % PARTITIONS, 0, timestamp, key, value, headers))
    return items


def with_offsets(items: list[Item]) -> list[Item]:
    """The records in the order of partitions, each with the offset that it must get."""
    result = []
    for partition in range(PARTITIONS):
        own = [item for item in items if item.partition == partition]
        result.extend(item._replace(offset=offset) for offset, item in enumerate(own))
    return result


def write_items_in_order(path: Path, items: list[Item]) -> None:
    write_items(str(path), [item._replace(offset=at) for at, item in enumerate(items)])
