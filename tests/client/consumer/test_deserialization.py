"""Keys and values to objects, without a cluster."""

from typing import Any

from barnabas_client import ConsumerRecord
from barnabas_client.consumer.deserialization import RecordDeserializer


def record(key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("t", 3, 5, 1000, 0, key, value, (("h", b"1"),), 2)


def test_a_function_gets_the_bytes_and_a_method_topic_and_headers_too() -> None:
    """The same two forms as for serializers; null stays null without asking either."""

    class ByTopic:
        def deserialize(self, topic: str, data: bytes, headers: Any, /) -> object:
            return topic, data, headers

    apply = RecordDeserializer(int, ByTopic()).apply
    done, error = apply([record(b"7", b"v"), record(None, None)])
    assert error is None
    assert [(one.key, one.value) for one in done] == [
        (7, ("t", b"v", (("h", b"1"),))),
        (None, None),
    ]
    assert done[0]._replace(key=b"7", value=b"v") == record(b"7", b"v")


def test_the_records_before_one_that_fails_are_given() -> None:
    """What can be handed out is; the error says which record, and what of it, was refused."""
    done, error = RecordDeserializer(None, int).apply([record(None, b"1"), record(None, b"x")])
    assert [one.value for one in done] == [1]
    assert error is not None
    assert error.position == ("t", 3, 5)
    assert "refused the value of t-3 at offset 5" in str(error)
