"""The copier with librdkafka."""

import faulthandler
import signal
import sys
import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

RECORDS_MAX = 500
SECONDS = 30


class Copier:
    """One consumer and one producer."""

    def __init__(self, bootstrap: str, group: str, source: str, output: str, name: str) -> None:
        self._output = output
        shared = {"bootstrap.servers": bootstrap, "log_level": 2}
        self._consumer = Consumer(
            {
                **shared,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
            }
        )
        self._producer = Producer({**shared, "transactional.id": name})
        self._until_answered(self._producer.init_transactions)
        self._consumer.subscribe([source])

    def copy_some(self) -> None:
        """One transaction, unless there is nothing to copy."""
        messages = self._consumer.consume(RECORDS_MAX, 0.2)
        messages = [message for message in messages if message.error() is None]
        if not messages:
            return
        ends = {
            (message.topic(), message.partition()): message.offset() + 1 for message in messages
        }
        self._producer.begin_transaction()
        try:
            for message in messages:
                self._producer.produce(self._output, message.value(), partition=message.partition())
            offsets = [TopicPartition(*place, end) for place, end in ends.items()]
            group = self._consumer.consumer_group_metadata()
            self._until_answered(self._producer.send_offsets_to_transaction, offsets, group)
            self._until_answered(self._producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._until_answered(self._producer.abort_transaction)
            self._return_to_commits()

    def _return_to_commits(self) -> None:
        for found in self._consumer.committed(self._consumer.assignment(), SECONDS):
            if found.error is not None:
                raise KafkaException(found.error)
            if found.offset < 0:
                found.offset = OFFSET_BEGINNING
            self._consumer.seek(found)

    def _until_answered(self, call: object, *arguments: object) -> None:
        while True:
            try:
                call(*arguments, SECONDS)  # type: ignore[operator]
            except KafkaException as error:
                if error.args[0].retriable():
                    print(f"again: {error.args[0]!r}", file=sys.stderr, flush=True)
                    continue
                raise
            return

    def close(self) -> None:
        self._consumer.close()


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    is_over = threading.Event()

    def until_input_ends() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=until_input_ends, daemon=True).start()
    copier = Copier(*sys.argv[1:])
    while not is_over.is_set():
        copier.copy_some()
    copier.close()


if __name__ == "__main__":
    main()
