"""Members of groups with librdkafka; the program speaks as `java/GroupReader.java` does.

Every member commits what it has read before it polls again and before it gives partitions up.
"""

import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

RECORDS_MAX = 200
REFUSALS = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
)
# What `retriable()` does not say although it passes.
PASSING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
_lock = threading.Lock()


class Member:
    """One consumer in a thread of its own."""

    def __init__(self, name: str, topic: str, settings: dict[str, Any]) -> None:
        self._name = name
        self._consumer = Consumer({"log_level": 2, **settings})
        self._topic = topic
        # First and last offset and count by partition of what is not committed yet.
        self._pending: dict[int, list[int]] = {}
        self._is_stopped = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def stop(self) -> None:
        self._is_stopped.set()

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                [self._topic],
                on_assign=lambda _, partitions: self._tell_of("assigned", partitions),
                on_revoke=self._give_up,
                on_lost=lambda _, partitions: self._tell_of("lost", partitions),
            )
            while not self._is_stopped.is_set():
                message = self._consumer.poll(0.1)
                left = RECORDS_MAX
                while message is not None:
                    self._note(message)
                    left -= 1
                    message = self._consumer.poll(0) if left else None
                self._commit()
            self._consumer.close()
        except KafkaException as error:
            self._tell("failed", str(error))
        self._tell("left")

    def _note(self, message: Any) -> None:
        if message.error() is not None:
            raise KafkaException(message.error())
        offset = message.offset()
        some = self._pending.setdefault(message.partition(), [offset, offset, 0])
        some[1] = offset
        some[2] += 1

    def _commit(self) -> None:
        if not self._pending:
            return
        read = [f"{partition}:{a}:{b}:{n}" for partition, (a, b, n) in self._pending.items()]
        ends = {partition: last + 1 for partition, (_, last, _) in self._pending.items()}
        self._pending = {}
        self._tell("read", str(_now_ms()), ",".join(read))
        offsets = [TopicPartition(self._topic, partition, end) for partition, end in ends.items()]
        while True:
            try:
                for committed in self._consumer.commit(offsets=offsets, asynchronous=False):
                    if committed.error is not None:
                        raise KafkaException(committed.error)
            except KafkaException as error:
                code = error.args[0].code()
                if code in REFUSALS:
                    self._tell("refused", str(_now_ms()), str(error))
                    return
                if code not in PASSING and not error.args[0].retriable():
                    raise
                self._tell("repeated", str(error))
                continue
            words = ",".join(f"{partition}:{end}" for partition, end in ends.items())
            self._tell("committed", str(_now_ms()), words)
            return

    def _give_up(self, _: Any, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._tell_of("revoked", partitions)

    def _tell_of(self, what: str, partitions: list[TopicPartition]) -> None:
        self._tell(what, str(_now_ms()), ",".join(str(one.partition) for one in partitions))

    def _tell(self, *words: str) -> None:
        with _lock:
            print("\t".join([self._name, *words]), flush=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    members: dict[str, Member] = {}
    for line in sys.stdin:
        what, name, *more = line.rstrip("\n").split("\t")
        if what == "join":
            topic, *pairs = more
            members[name] = Member(name, topic, dict(pair.split("=", 1) for pair in pairs))
            members[name].thread.start()
        else:
            members[name].stop()
    for member in members.values():
        member.stop()
    for member in members.values():
        member.thread.join()


if __name__ == "__main__":
    main()
