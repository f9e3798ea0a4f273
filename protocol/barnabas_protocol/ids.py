"""Identifiers that cross module borders: topic partitions and topic ids.

Offsets, epochs and broker ids are plain integers. A uuid is its sixteen bytes, as on the wire; all
zero means "none" and its text form is url-safe base64 without padding, as Kafka prints topic,
cluster and directory ids.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple, TypeAlias

Uuid: TypeAlias = bytes

UUID_BYTES: Final = 16
UUID_TEXT_LENGTH: Final = 22
ZERO_UUID: Final[Uuid] = bytes(UUID_BYTES)


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return the name of its directory, `topic-partition`."""
        return f"{self.topic}-{self.partition}"


def uuid_to_text(uuid: Uuid) -> str:
    """Return the 22 characters under which Kafka shows these 16 bytes."""
    if len(uuid) != UUID_BYTES:
        raise ValueError(f"a uuid has {UUID_BYTES} bytes, not {len(uuid)}")
    return urlsafe_b64encode(uuid)[:UUID_TEXT_LENGTH].decode("ascii")


def uuid_from_text(text: str) -> Uuid:
    """Return the 16 bytes of a uuid that Kafka printed.

    Raises: ValueError if the text is not 22 characters of url-safe base64.
    """
    if len(text) != UUID_TEXT_LENGTH:
        raise ValueError(f"a uuid in text has {UUID_TEXT_LENGTH} characters: {text!r}")
    try:
        uuid = urlsafe_b64decode(text.encode("ascii") + b"==")
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"not a uuid in url-safe base64: {text!r}") from error
    if len(uuid) != UUID_BYTES:
        raise ValueError(f"not a uuid in url-safe base64: {text!r}")
    return uuid
