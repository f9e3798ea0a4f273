"""Uuids in their text form, and topic partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.ids import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text


def test_a_uuid_prints_as_kafka_prints_it() -> None:
    """The example of formats, section 12."""
    assert uuid_to_text(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"


@given(st.binary(min_size=16, max_size=16))
def test_uuids_survive_their_text_form(uuid: bytes) -> None:
    """They are kept as text in meta.properties and partition.metadata."""
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


@pytest.mark.parametrize("text", ["", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0OD€", "x" * 23])
def test_text_that_is_no_uuid_is_a_value_error(text: str) -> None:
    """A damaged file must not yield some other id."""
    with pytest.raises(ValueError, match="uuid"):
        uuid_from_text(text)


def test_bytes_that_are_no_uuid_are_a_value_error() -> None:
    """Sixteen, neither more nor less."""
    with pytest.raises(ValueError, match="16"):
        uuid_to_text(b"short")


def test_a_topic_partition_prints_as_its_directory() -> None:
    """As Kafka names it in messages."""
    assert str(TopicPartition("a-topic", 3)) == "a-topic-3"
