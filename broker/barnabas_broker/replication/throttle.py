"""How much replication traffic may pass: rates for replicas that catch up, not for those in sync.

One quota for what leaders send and one for what followers fetch. Pure but for the clock. Source:
KIP-73, QUO-3, QUO-6, QUO-8. Invariants: a replica in sync is never held back, though its bytes
count; without a rate, or for a topic that lists no replicas, a check costs one comparison.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from barnabas_broker.env.clock import Clock
from barnabas_protocol.ids import TopicPartition

UNLIMITED_RATE = 2**63 - 1
SAMPLE_MS = 1_000
SAMPLE_COUNT = 11
SHORTEST_WINDOW_MS = (SAMPLE_COUNT - 1) * SAMPLE_MS
WAIT_MS_MIN = 10
ALL_REPLICAS = "*"


class RateLimit:
    """Bytes in the last samples, against a rate in bytes a second that may change (QUO-8)."""

    __slots__ = ("_clock", "_samples", "_total_bytes", "rate")

    def __init__(self, clock: Clock, rate: float = UNLIMITED_RATE) -> None:
        self._clock = clock
        self.rate = rate
        self._samples: deque[list[int]] = deque()  # beginning (monotonic ms) and bytes of each
        self._total_bytes = 0

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.rate < UNLIMITED_RATE

    def record(self, size_bytes: int) -> None:
        """Count bytes that have passed."""
        now_ms = self._clock.monotonic_ms()
        self._expire(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= SAMPLE_MS:
            self._samples.append([now_ms - now_ms % SAMPLE_MS, 0])
        self._samples[-1][1] += size_bytes
        self._total_bytes += size_bytes

    @property
    def observed_rate(self) -> float:
        """Bytes a second over the window, which is taken as at least all but one of its samples."""
        window_ms = self._window_ms()
        return self._total_bytes * 1000 / window_ms

    def could_ever_pass(self, size_bytes: int) -> bool:
        """Whether so many bytes at once keep the rate when nothing else has passed."""
        return size_bytes * 1000 <= self.rate * SHORTEST_WINDOW_MS

    def throttle_ms(self, more_bytes: int = 0) -> int:
        """How long to wait until the rate is kept, if more bytes pass now; 0: it is kept (QUO-3).

        Without an end for a rate that allows nothing.
        """
        window_ms = self._window_ms()
        total_bytes = self._total_bytes + more_bytes
        if total_bytes * 1000 <= self.rate * window_ms:
            return 0
        if total_bytes * 1000 >= self.rate * UNLIMITED_RATE:
            return UNLIMITED_RATE
        return math.ceil(total_bytes * 1000 / self.rate - window_ms)

    def _window_ms(self) -> int:
        """How long the window is that counts now; what is older is forgotten."""
        now_ms = self._clock.monotonic_ms()
        self._expire(now_ms)
        if not self._samples:
            return SHORTEST_WINDOW_MS
        return max(now_ms - self._samples[0][0], SHORTEST_WINDOW_MS)

    @property
    def is_exceeded(self) -> bool:
        """Whether more has passed than may."""
        return self.rate < UNLIMITED_RATE and self.observed_rate > self.rate

    @property
    def wait_ms(self) -> int:
        """After how long it is worth looking again, when it is exceeded: at most one sample."""
        observed = self.observed_rate
        if observed <= self.rate:
            return WAIT_MS_MIN
        window_ms = SAMPLE_COUNT * SAMPLE_MS
        wait_ms = (observed - self.rate) * window_ms / max(self.rate, 1)
        return int(min(max(wait_ms, WAIT_MS_MIN), SAMPLE_MS))

    def _expire(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= SAMPLE_COUNT * SAMPLE_MS:
            self._total_bytes -= self._samples.popleft()[1]


class ReplicationThrottle:
    """The two quotas of one broker, for the replicas that the topics' settings list."""

    __slots__ = ("follower", "leader")

    def __init__(self, clock: Clock) -> None:
        self.leader = RateLimit(clock)
        self.follower = RateLimit(clock)

    # As a leader.

    def leader_allows(
        self,
        topic_partition: TopicPartition,
        listed: Sequence[str],
        follower_id: int,
        *,
        is_in_sync: bool,
    ) -> bool:
        """Whether records may be sent to a follower now.

        `listed`: the topic's `leader.replication.throttled.replicas`; `is_in_sync`: whether the
        follower has all that is committed.
        """
        if not listed or is_in_sync or not self.leader.is_limited:
            return True
        return not (is_listed(listed, topic_partition, follower_id) and self.leader.is_exceeded)

    def leader_sent(
        self,
        topic_partition: TopicPartition,
        listed: Sequence[str],
        follower_id: int,
        size_bytes: int,
    ) -> None:
        """Count records that a follower was sent."""
        if (
            listed
            and size_bytes
            and self.leader.is_limited
            and is_listed(listed, topic_partition, follower_id)
        ):
            self.leader.record(size_bytes)

    # As a follower.

    def follower_waits_ms(
        self,
        topic_partition: TopicPartition,
        listed: Sequence[str],
        node_id: int,
        *,
        is_in_sync: bool,
    ) -> int:
        """How long not to fetch a partition; 0: fetch it."""
        if not listed or is_in_sync or not self.follower.is_limited:
            return 0
        if is_listed(listed, topic_partition, node_id) and self.follower.is_exceeded:
            return self.follower.wait_ms
        return 0

    def follower_fetched(
        self, topic_partition: TopicPartition, listed: Sequence[str], node_id: int, size_bytes: int
    ) -> None:
        """Count records that were fetched."""
        if (
            listed
            and size_bytes
            and self.follower.is_limited
            and is_listed(listed, topic_partition, node_id)
        ):
            self.follower.record(size_bytes)


def is_listed(listed: Sequence[str], topic_partition: TopicPartition, node_id: int) -> bool:
    """Whether a list of `partition:broker`, or `*`, names a replica."""
    return ALL_REPLICAS in listed or f"{topic_partition.partition}:{node_id}" in listed
