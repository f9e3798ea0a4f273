"""The text of a share partition's key, by which its coordinator is found."""

import pytest

from barnabas_broker.share.persister import SharePartitionKey
from barnabas_protocol.hashing import coordinator_partition
from barnabas_protocol.ids import uuid_from_text

TOPIC_ID = uuid_from_text("AAECAwQFBgcICQoLDA0ODw")


@pytest.mark.parametrize(
    ("key", "text", "partition"),
    [
        (SharePartitionKey("sg", TOPIC_ID, 0), "sg:AAECAwQFBgcICQoLDA0ODw:0", 10),
        (SharePartitionKey("sg", TOPIC_ID, 1), "sg:AAECAwQFBgcICQoLDA0ODw:1", 9),
        (SharePartitionKey("my-group", TOPIC_ID, 7), "my-group:AAECAwQFBgcICQoLDA0ODw:7", 35),
    ],
)
def test_a_key_has_the_partition_of_its_text(
    key: SharePartitionKey, text: str, partition: int
) -> None:
    """SHR-22, with vectors of Kafka."""
    assert str(key) == text
    assert coordinator_partition(text, 50) == partition
    assert SharePartitionKey.from_text(text) == key


def test_a_group_may_hold_colons() -> None:
    """SHR-2: the text is split from the right."""
    key = SharePartitionKey("a:b::", TOPIC_ID, 2**31 - 1)
    assert SharePartitionKey.from_text(str(key)) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sg",
        "sg:0",
        ":AAECAwQFBgcICQoLDA0ODw:0",
        "sg:AAECAwQFBgcICQoLDA0OD:0",
        "sg:AAECAwQFBgcICQoLDA0ODw:",
        "sg:AAECAwQFBgcICQoLDA0ODw:-1",
        "sg:AAECAwQFBgcICQoLDA0ODw:x",
        "sg:AAECAwQFBgcICQoLDA0ODw:٣",
        "sg:AAECAwQFBgcICQoLDA0ODw:2147483648",
        "sg:AAECAwQFBgcICQoLDA0ODw:" + "9" * 5000,
    ],
)
def test_another_text_is_no_key(text: str) -> None:
    """SHR-2."""
    with pytest.raises(ValueError, match=r"key|uuid"):
        SharePartitionKey.from_text(text)
