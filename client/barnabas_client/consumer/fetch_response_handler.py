"""Handles one partition's part of a fetch response: records, new offsets, or an error.

Pure except for the refreshes and resets that it requests. Not here: sending (`fetcher.py`).

Source: KIP-74, KIP-98, KIP-320, KIP-392, KIP-951; CON-6. Invariants: a response for another offset
than the next one is dropped; a position in a topic that was deleted is none in the next topic of
its name; an error is raised behind the records that were buffered before it; a retriable error is
never raised.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas_client.cluster.metadata import Node
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.completed_fetch import CompletedFetch
from barnabas_client.consumer.fetch_buffer import FetchBuffer
from barnabas_client.consumer.fetch_session import PartitionFetch
from barnabas_client.consumer.offsets_lookup import EpochEnd
from barnabas_client.consumer.partition_state import PartitionState
from barnabas_client.consumer.positions import PositionFinder
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import BarnabasError, OffsetOutOfRangeError, RetriableError, error_for
from barnabas_client.network.client import Client
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.fetch import PartitionData

_log = logging.getLogger(__name__)

# The leader is the right one, but not ready yet.
_WAIT: Final = frozenset((ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_LEADER_EPOCH))


class FetchResponseHandler:
    """Updates the buffer and the partitions' states by responses."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        positions: PositionFinder,
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._buffer = buffer
        self._positions = positions
        self._is_committed_only = settings.isolation_level == "read_committed"
        #: Addresses of leaders that the response names, for all of its partitions.
        self.endpoints: list[Node] = []

    def handle(
        self,
        node_id: int,
        partition: TopicPartition,
        requested: PartitionFetch,
        data: PartitionData,
        now_ms: int,
    ) -> None:
        """Handle the response of broker `node_id` for one partition."""
        state = self._subscription.assigned.get(partition)
        if state is None or self._buffer.fetch_offset(partition, state) != requested.fetch_offset:
            return
        if data.error_code != ErrorCode.NONE:
            self._handle_error(node_id, partition, state, requested, data, now_ms)
            return
        if requested.topic_id != state.topic_id and self._is_replaced(partition, state, requested):
            return
        if data.diverging_epoch.epoch >= 0:
            self._truncate(node_id, partition, state, requested, data)
            return
        if data.preferred_read_replica >= 0:
            state.preferred_replica_id = data.preferred_read_replica
            state.preferred_replica_until_ms = now_ms + self._settings.metadata_max_age_ms
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        records = data.records
        if not records:
            return
        assert not isinstance(records, list), "a response that was read has its records in one"
        self._buffer.add(
            CompletedFetch(
                partition,
                records,
                requested.fetch_offset,
                check_crcs=self._settings.check_crcs,
                aborted=(data.aborted_transactions or ()) if self._is_committed_only else None,
            ),
            node_id,
        )

    def _is_replaced(
        self, partition: TopicPartition, state: PartitionState, requested: PartitionFetch
    ) -> bool:
        """Note which topic is read; drop the position if that was one in another of its name.

        By a response of the leader, not by metadata: a broker that lags may name a former id.
        """
        former, state.topic_id = state.topic_id, requested.topic_id
        if ZERO_UUID in (former, requested.topic_id):
            return False
        _log.info("%s was made anew: the position in it is looked up", partition)
        self._buffer.drop(partition)
        state.forget_position()
        self._positions.request()
        return True

    def _handle_error(
        self,
        node_id: int,
        partition: TopicPartition,
        state: PartitionState,
        requested: PartitionFetch,
        data: PartitionData,
        now_ms: int,
    ) -> None:
        error = error_for(data.error_code, f"fetching {partition} from broker {node_id}")
        _log.debug("fetching %s at %d: %s", partition, requested.fetch_offset, error)
        is_from_replica = node_id == state.preferred_replica_id
        state.preferred_replica_id = -1
        leader = data.current_leader
        has_new_leader = leader.leader_id >= 0 and self._client.apply_leader_hint(
            *partition, leader.leader_id, leader.leader_epoch, self.endpoints
        )
        if isinstance(error, OffsetOutOfRangeError):
            if is_from_replica:
                # A follower may lag behind, or have deleted more: the leader decides. Not at once,
                # since it may name that follower again.
                state.retry_at_ms = now_ms + self._client.backoff_ms(0)
                return
            self._reset(node_id, partition, state, requested, now_ms)
        elif isinstance(error, RetriableError) or data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            if not has_new_leader:
                state.retry_at_ms = now_ms + self._client.backoff_ms(0)
                if data.error_code not in _WAIT:
                    self._client.request_refresh()
        else:
            self._buffer.fail(partition, error, node_id)

    def _reset(
        self,
        node_id: int,
        partition: TopicPartition,
        state: PartitionState,
        requested: PartitionFetch,
        now_ms: int,
    ) -> None:
        if requested.fetch_offset != state.offset:
            # Fetched ahead of the buffer: that is read first, then this is fetched again.
            state.retry_at_ms = now_ms + self._client.backoff_ms(0)
            return
        try:
            self._positions.reset_or_fail(partition, state)
        except BarnabasError as error:
            self._buffer.fail(partition, error, node_id)

    def _truncate(
        self,
        node_id: int,
        partition: TopicPartition,
        state: PartitionState,
        requested: PartitionFetch,
        data: PartitionData,
    ) -> None:
        """The leader's log diverges at an earlier offset than was fetched (KIP-320)."""
        end = data.diverging_epoch
        self._buffer.drop(partition)
        if end.end_offset >= state.offset:
            # Only prefetched records are gone, which the program has not seen.
            return
        error = self._positions.truncate(partition, state, EpochEnd(end.epoch, end.end_offset))
        if error is not None:
            self._buffer.fail(partition, error, node_id)
