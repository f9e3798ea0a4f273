"""Produces records whose values are the numbers FIRST to LAST, over the partitions of a topic.

Usage: numbered_records.py BOOTSTRAP TOPIC PARTITIONS FIRST LAST. Timestamps rise by one millisecond
from 1,700,000,000,000 for number 0.
"""

import sys

from confluent_kafka import Producer


def main(bootstrap: str, topic: str, partitions: int, first: int, last: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": 1000000,
        }
    )
    for number in range(first, last):
        producer.produce(
            topic,
            value=b"%d" % number,
            key=b"%d" % (number % 100),
            partition=number % partitions,
            timestamp=1_700_000_000_000 + number,
            headers=[("number", b"%d" % number)],
        )
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(60)
    if left:
        sys.exit(f"{left} not delivered")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *(int(text) for text in sys.argv[3:6]))
