"""An idempotent producer under steady load that lives through the broker's deaths.

Usage: steady_load.py BOOTSTRAP TOPIC PARTITIONS ACKNOWLEDGED_FILE [PAUSE_MS]. It numbers its
records per partition and appends a line `partition number offset` for each acknowledged one. It
ends when its standard input is closed, after everything has been delivered.
"""

import select
import sys
import time

from confluent_kafka import Message, Producer

PAYLOAD = b"." * 200
IN_FLIGHT_MAX = 20000


def main(bootstrap: str, topic: str, partitions: int, path: str, pause_ms: int = 0) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "delivery.timeout.ms": 600000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "log_level": 2,
        }
    )
    failures: list[str] = []
    with open(path, "w", encoding="ascii") as acknowledged:

        def on_delivery(error: object, message: Message) -> None:
            if error is not None:
                failures.append(str(error))
                return
            number = int(message.key())
            acknowledged.write(f"{message.partition()} {number} {message.offset()}\n")

        number = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            for partition in range(partitions):
                key = b"%d" % number
                producer.produce(
                    topic, value=PAYLOAD, key=key, partition=partition, on_delivery=on_delivery
                )
            number += 1
            if number % 50 == 0 or pause_ms:
                acknowledged.flush()
            # A pace that a small machine holds: without a pause, some thousand records a second.
            deadline = time.monotonic() + pause_ms / 1000
            producer.poll(0.001)
            while (left_seconds := deadline - time.monotonic()) > 0:
                producer.poll(left_seconds)
            while len(producer) > IN_FLIGHT_MAX:
                producer.poll(0.1)
        left = producer.flush(120)
    if left or failures:
        sys.exit(f"{left} not delivered, {len(failures)} failed: {failures[:3]}")
    print(f"produced {number * partitions}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], *map(int, sys.argv[5:]))
