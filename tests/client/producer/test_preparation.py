"""Records before they are sent: serialized, checked, within the limits; without a cluster."""

import json
from typing import Any

from barnabas_client import ProducerRecord
from barnabas_client.config import ProducerSettings
from barnabas_client.producer.preparation import Preparation


def preparation(**settings: Any) -> Preparation:
    return Preparation(ProducerSettings.create({"bootstrap_servers": "a:1", **settings}))


def test_a_null_is_a_null_whatever_the_serializer() -> None:
    """A tombstone of a compacted topic must not become the four letters of JSON's null."""
    made = preparation(
        key_serializer=lambda key: json.dumps(key).encode(),
        value_serializer=lambda value: json.dumps(value).encode(),
    )
    tombstone = made.prepare(ProducerRecord("t", None, "k"))
    assert (tombstone.key, tombstone.value) == (b'"k"', None)
    keyless = made.prepare(ProducerRecord("t", {}, None))
    assert (keyless.key, keyless.value) == (None, b"{}")


def test_a_serializer_with_a_method_sees_topic_and_headers() -> None:
    """For schemas that depend on the topic, or say in a header which they are."""

    class ByTopic:
        def serialize(self, topic: str, value: Any, headers: Any, /) -> bytes:
            return f"{topic} {value} {list(headers)}".encode()

    made = preparation(value_serializer=ByTopic()).prepare(
        ProducerRecord("t", 7, headers=[("h", b"1")])
    )
    assert made.value == b"t 7 [('h', b'1')]"
