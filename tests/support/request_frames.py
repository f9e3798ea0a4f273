"""Valid request frames of every served API and version, and what random damage makes of them.

The requests name things that exist (a topic, a group), so that they get past the first check;
everything comes from one seed.
"""

import random
import struct
from typing import Any

from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, SERVED, ApiKey
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.record import Record, encode_batch
from barnabas_protocol.schema import Message
from tests.protocol.random_messages import RandomMessages

TOPIC = "fuzzed"
GROUP = "fuzzed-group"
_TOPIC_FIELDS = {"name", "topic", "topic_name"}
_PARTITION_FIELDS = {"partition", "index", "partition_index", "partition_id"}
# Requests by which whoever may send them takes the broker out of its cluster, as they should.
OUSTING = (ApiKey.UNREGISTER_BROKER, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT)
_EXTREMES = (0, -1, 1, 127, 128, 32767, 2**31 - 1, -(2**31), 2**24, 1_000_000)


class RequestFrames:
    """Makes frames, without their size prefix, and damages them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._messages = RandomMessages(seed, small=True)

    def valid_frames(self, per_version: int) -> list[bytes]:
        """Frames for each served key and version, but those that could end the service."""
        frames = []
        for key, (served_low, high) in SERVED.items():
            if key in OUSTING:
                continue
            for version in range(max(served_low, KNOWN[key][0]), high + 1):
                for number in range(per_version):
                    request = self._messages.message(codec.request_class(key), version)
                    self._make_plausible(request, key)
                    frames.append(codec.encode_request(request, key, version, number, "fuzz"))
        return frames

    def _make_plausible(self, message: Message, key: ApiKey) -> None:
        """Replaces random names and numbers by ones that mean something, most of the time."""
        for field in type(message).__fields__:
            value = getattr(message, field.name)
            if isinstance(value, list):
                for index, element in enumerate(value):
                    if isinstance(element, Message):
                        self._make_plausible(element, key)
                    elif isinstance(element, str) and self._is_likely():
                        value[index] = TOPIC
            elif isinstance(value, Message):
                self._make_plausible(value, key)
            elif self._is_likely():
                plausible = self._plausible(field.name, key)
                if plausible is not None:
                    setattr(message, field.name, plausible)

    def _is_likely(self) -> bool:
        return self._random.random() < 0.8

    def _plausible(self, name: str, key: ApiKey) -> Any:
        if name in _TOPIC_FIELDS:
            return TOPIC
        if name in _PARTITION_FIELDS:
            return self._random.randrange(3)
        if name == "group_id":
            return GROUP
        if name == "records":
            return self.batch()
        if name == "validate_only":
            return True
        if name in ("max_wait_ms", "min_bytes"):
            return self._random.choice((0, 1, 5))
        if name in ("timeout_ms", "session_timeout_ms", "rebalance_timeout_ms"):
            return 6000
        if name == "protocol_type":
            return "consumer"
        if name == "num_partitions":
            return self._random.randrange(1, 4)
        if name in ("acks", "replication_factor", "session_epoch", "current_leader_epoch"):
            return self._random.choice((0, 1, -1))
        if name in ("offset", "fetch_offset", "timestamp", "committed_offset"):
            return self._random.choice((0, 1, -1, -2, -3))
        if name in ("fetch_max_bytes", "max_bytes", "partition_max_bytes"):
            return 1 << 20
        return None

    def batch(self) -> bytes:
        """A record batch with some codec."""
        count = self._random.randrange(1, 6)
        records = [Record(n, 1000 + n, b"key", b"value " * n, (("h", b"v"),)) for n in range(count)]
        return encode_batch(records, compression=self._random.choice(list(Compression)))

    def damaged(self, frame: bytes) -> bytes:
        """A damaged copy with its size prefix; now and then the prefix itself is wrong."""
        data = bytearray(frame)
        pick = self._random
        kind = pick.randrange(20)
        if kind < 8:
            for _ in range(pick.choice((1, 1, 1, 2, 4, 8))):
                data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
        elif kind < 12:
            position = pick.randrange(len(data))
            form = pick.choice((">b", ">h", ">i", ">q"))
            value = struct.pack(form, _wrap(pick.choice(_EXTREMES), struct.calcsize(form)))
            data[position : position + len(value)] = value
        elif kind < 14:
            del data[pick.randrange(1, len(data)) :]
        elif kind < 15:
            data += pick.randbytes(pick.randrange(1, 100))
        elif kind < 16:
            position = pick.randrange(len(data))
            data[position:position] = pick.randbytes(pick.randrange(1, 20))
        elif kind < 17:
            start = pick.randrange(len(data))
            data[start : start + pick.randrange(1, 40)] = b""
        elif kind < 18:
            data[0:4] = struct.pack(">hh", pick.randrange(-1, 100), pick.randrange(-1, 16))
        elif kind < 19:
            data[pick.randrange(len(data)) :] = pick.randbytes(pick.randrange(1, 60))
        size = len(data)
        if kind == 19:
            size = pick.choice((0, -1, 2**31 - 1, -(2**31), size + 5, max(size - 5, 0), 3))
        return struct.pack(">i", size) + bytes(data)


def _wrap(value: int, size: int) -> int:
    half = 1 << (8 * size - 1)
    return (value + half) % (2 * half) - half
