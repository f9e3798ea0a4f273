"""The client's end of the share session with one leader.

Pure: no I/O, no clock. Not here: which partitions to fetch and what responses mean
(`share_fetcher.py`). One session per leader, one request of it in flight.

Source: KIP-932; SHR-20, SHR-41.
Invariants: the epochs of requests are 0, 1, 2, ... and from the largest number 1 again, over both
APIs; a request with epoch 0 names all partitions and acknowledges nothing. After a request whose
fate is not known, and after an error of the whole response, the next one opens another session;
`number` tells them apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_client.share.acquisition import TopicIdPartition
from barnabas_client.share.pending_acknowledgements import PartitionAcknowledgements
from barnabas_protocol.ids import Uuid
from barnabas_protocol.messages import share_acknowledge, share_fetch

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchLimits:
    """The fields of a ShareFetch that hold for all of its partitions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    acquire_mode: int


class ShareSession:
    """Epoch and partitions of the session, and the changes for the next request."""

    __slots__ = ("_epoch", "_group_id", "_member_id", "_partitions", "number")

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._epoch = INITIAL_EPOCH
        # As the broker has them, once the request in flight has arrived.
        self._partitions: set[TopicIdPartition] = set()
        #: Rises when a session is lost.
        self.number = 0

    @property
    def is_open(self) -> bool:
        """Whether the broker has the session, as far as is known."""
        return self._epoch != INITIAL_EPOCH

    def build_fetch(
        self,
        wanted: Collection[TopicIdPartition],
        acknowledgements: Sequence[PartitionAcknowledgements],
        limits: ShareFetchLimits,
    ) -> share_fetch.ShareFetchRequest:
        """The next fetch; acknowledgements are of wanted partitions, and none if it opens."""
        assert self.is_open or not acknowledgements, "a request that opens acknowledges nothing"
        added = [one for one in wanted if one not in self._partitions]
        forgotten = self._partitions.difference(wanted)
        self._partitions = set(wanted)
        rows: dict[TopicIdPartition, list[share_fetch.AcknowledgementBatch]] = {}
        for key in added:
            rows[key] = []
        for one in acknowledgements:
            assert one.topic_id_partition in self._partitions, "it would join the session"
            rows[one.topic_id_partition] = [
                share_fetch.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                for first, last, kind in one.ranges
            ]
        topics: dict[Uuid, share_fetch.FetchTopic] = {}
        for (topic_id, partition), batches in rows.items():
            topic = topics.setdefault(topic_id, share_fetch.FetchTopic(topic_id=topic_id))
            topic.partitions.append(
                share_fetch.FetchPartition(
                    partition_index=partition, acknowledgement_batches=batches
                )
            )
        return share_fetch.ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.max_records,
            share_acquire_mode=limits.acquire_mode,
            topics=list(topics.values()),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def build_acknowledge(
        self, acknowledgements: Sequence[PartitionAcknowledgements], *, is_final: bool = False
    ) -> share_acknowledge.ShareAcknowledgeRequest:
        """Acknowledgements alone; with `is_final` the session ends, and all of its locks."""
        assert self.is_open, "there is nothing to acknowledge in a session that was not opened"
        topics: dict[Uuid, share_acknowledge.AcknowledgeTopic] = {}
        for one in acknowledgements:
            topic_id, partition = one.topic_id_partition
            topic = topics.setdefault(
                topic_id, share_acknowledge.AcknowledgeTopic(topic_id=topic_id)
            )
            topic.partitions.append(
                share_acknowledge.AcknowledgePartition(
                    partition_index=partition,
                    acknowledgement_batches=[
                        share_acknowledge.AcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=[kind]
                        )
                        for first, last, kind in one.ranges
                    ],
                )
            )
        return share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if is_final else self._epoch,
            is_renew_ack=any(one.is_renewal for one in acknowledgements),
            topics=list(topics.values()),
        )

    def on_success(self) -> None:
        """The broker took the request."""
        self._epoch = next_epoch(self._epoch)

    def reset(self) -> None:
        """The session is lost, or what the broker knows of it is not known."""
        self._epoch = INITIAL_EPOCH
        self._partitions = set()
        self.number += 1


def next_epoch(epoch: int) -> int:
    """The epoch of the next request; 0 would open another session."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


def _forgotten(partitions: Iterable[TopicIdPartition]) -> list[share_fetch.ForgottenTopic]:
    topics: dict[Uuid, share_fetch.ForgottenTopic] = {}
    for topic_id, partition in sorted(partitions):
        topic = topics.setdefault(topic_id, share_fetch.ForgottenTopic(topic_id=topic_id))
        topic.partitions.append(partition)
    return list(topics.values())
