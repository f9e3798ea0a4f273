"""The little language in which every client is asked to do the same things.

A plan is a text file with one step per line, fields separated by tabs; the program answers each
with one line `result<TAB>text` on standard output. Records travel in files with one line each:
partition, offset, timestamp, key, value, headers. Bytes are `x` and hexadecimal digits, null is
`-`, headers are `name=bytes` joined by commas. So a client in any language needs no JSON.

    create TOPIC PARTITIONS [KEY=VALUE...]       create_partitions TOPIC TOTAL
    produce TOPIC CODEC IDEMPOTENT(0|1) FILE     consume TOPIC GROUP COUNT FILE (commits)
    read TOPIC COUNT FILE (no group)             seek TOPIC TIMESTAMP FILE (by time, to the end)
    offsets TOPIC (beginning:end per partition)  committed GROUP TOPIC
    config TOPIC KEY                             alter_config TOPIC KEY VALUE
    topics  groups  delete TOPIC  delete_group GROUP  stable GROUP (waits until it is)
    rebalance TOPIC GROUP PARTITIONS (three members, then two)

This module has no dependencies: it is read by the Pythons of several environments.
"""

import sys
import traceback
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

DEADLINE_SECONDS = 40.0


class Item(NamedTuple):
    """One record, in the form in which clients are compared."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def _to_text(data: bytes | None) -> str:
    return "-" if data is None else "x" + bytes(data).hex()


def _from_text(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text[1:])


def format_item(item: Item) -> str:
    """One line of a file of records."""
    headers = ",".join(f"{name}={_to_text(value)}" for name, value in item.headers)
    numbers = f"{item.partition}\t{item.offset}\t{item.timestamp}"
    return f"{numbers}\t{_to_text(item.key)}\t{_to_text(item.value)}\t{headers}"


def parse_item(line: str) -> Item:
    """The inverse of `format_item`."""
    partition, offset, timestamp, key, value, headers = line.rstrip("\n").split("\t")
    pairs = [pair.split("=", 1) for pair in headers.split(",") if pair]
    return Item(
        int(partition),
        int(offset),
        int(timestamp),
        _from_text(key),
        _from_text(value),
        tuple((name, _from_text(text)) for name, text in pairs),
    )


def read_items(path: str) -> list[Item]:
    """All records of a file."""
    with open(path, encoding="ascii") as file:
        return [parse_item(line) for line in file]


def write_items(path: str, items: Iterable[Item]) -> None:
    """Writes the records, ordered by partition and offset."""
    with open(path, "w", encoding="ascii") as file:
        for item in sorted(items, key=lambda i: (i.partition, i.offset)):
            file.write(format_item(item) + "\n")


def pairs_text(pairs: Iterable[tuple[int, object]]) -> str:
    """`partition:value` pairs in order, as every client prints them."""
    return ",".join(f"{partition}:{value}" for partition, value in sorted(pairs))


class Client(Protocol):
    """What an adapter offers: one method per step that it supports, named as the step."""

    def close(self) -> None: ...


def main(connect: Callable[[str], Client]) -> None:
    """Runs the plan `argv[2]` against the address `argv[1]`."""
    client = connect(sys.argv[1])
    with open(sys.argv[2], encoding="ascii") as file:
        plan = [line.rstrip("\n").split("\t") for line in file if line.strip()]
    try:
        for name, *arguments in plan:
            answer = getattr(client, name)(*arguments)
            print(f"result\t{'ok' if answer is None else answer}", flush=True)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    finally:
        client.close()
