"""Topics made on demand: those that a Metadata request names, the coordinators' own, dead letters.

One request in flight per topic; the caller responds at once and the client sends its request
again. What a client names counts against its `controller_mutation_rate`: it is made all the same,
and the client's connection is muted when it is known for how long.

Source: TOP-6, TOP-7, QUO-7, SHR-35.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller import topic_requests
from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.mutation_quota import STRICT_SINCE
from barnabas_broker.handlers.client_quotas import ClientQuotas
from barnabas_broker.handlers.forwarding import packed_address
from barnabas_broker.network.session import InFlightRequest, Session
from barnabas_broker.security.principal import Principal
from barnabas_broker.security.principal_data import encode_principal
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas_protocol.messages.envelope import EnvelopeRequest

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
CREATIONS_MAX = 100
"""Topics that are being made at a time because a client has named them; for more, the client sends
its request again. One request may invent tens of thousands of names."""
_PERMISSIVE_VERSION = STRICT_SINCE[ApiKey.CREATE_TOPICS] - 1


class _Client(NamedTuple):
    """Who has named a topic that is made."""

    principal: Principal
    client_id: str
    session: Session


class TopicCreation:
    """Creates missing topics in the background."""

    def __init__(
        self,
        channel: ControllerChannel,
        config: BrokerConfig,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        controller: Controller,
        quotas: ClientQuotas,
    ) -> None:
        self._channel = channel
        self._config = config
        self._spawn = spawn
        self._controller = controller
        self._quotas = quotas
        self._in_flight: set[str] = set()

    def ensure(self, name: str, in_flight: InFlightRequest | None = None) -> None:
        """Start to create a topic that is needed, by a name that is valid.

        `in_flight` is the request of a client that has chosen the name.
        """
        if name == OFFSETS_TOPIC:
            self._start(self._offsets_topic(), None)
        elif name == TRANSACTION_STATE_TOPIC:
            self._start(self._transaction_state_topic(), None)
        elif name == SHARE_STATE_TOPIC:
            self._start(self._share_state_topic(), None)
        elif len(self._in_flight) < CREATIONS_MAX:
            client = None
            if in_flight is not None and self._quotas.mutation is not None:
                client = _Client(in_flight.principal, in_flight.client_id or "", in_flight.session)
            self._start(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1), client)

    def ensure_dead_letters(self, name: str) -> None:
        """Start to create a topic for dead letters of share groups (SHR-35)."""
        if len(self._in_flight) >= CREATIONS_MAX:
            return
        # Whatever the default of the cluster: each dead letter says when it was written.
        configs = {
            "errors.deadletterqueue.group.enable": "true",
            "message.timestamp.type": "CreateTime",
        }
        self._start(_topic(name, -1, -1, configs), None)

    def _offsets_topic(self) -> CreatableTopic:
        config = self._config
        return _topic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )

    def _transaction_state_topic(self) -> CreatableTopic:
        config = self._config
        return _topic(
            TRANSACTION_STATE_TOPIC,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )

    def _share_state_topic(self) -> CreatableTopic:
        config = self._config
        return _topic(
            SHARE_STATE_TOPIC,
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            {
                # The coordinator deletes what nobody needs; age and size say nothing of that.
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            },
        )

    def _start(self, topic: CreatableTopic, client: _Client | None) -> None:
        if topic.name not in self._in_flight:
            self._in_flight.add(topic.name)
            self._spawn(self._create(topic, client))

    async def _create(self, topic: CreatableTopic, client: _Client | None) -> None:
        timeout_ms = self._config.request_timeout_ms
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
        try:
            response: CreateTopicsResponse
            if client is None:
                response = await self._channel.send(request, timeout_ms=timeout_ms)
            else:
                response = await self._create_for(client, request)
                client.session.mute(response.throttle_time_ms)
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    error = KafkaError(ErrorCode(result.error_code), result.error_message)
                    logger.warning("topic %s could not be created: %s", topic.name, error)
        except KafkaError as error:
            logger.warning("topic %s could not be created: %s", topic.name, error)
        finally:
            self._in_flight.discard(topic.name)

    async def _create_for(
        self, client: _Client, request: CreateTopicsRequest
    ) -> CreateTopicsResponse:
        """The response to what a client might have sent itself, in a permissive version.

        Raises: KafkaError.
        """
        frame = codec.encode_request(
            request, ApiKey.CREATE_TOPICS, _PERMISSIVE_VERSION, 0, client.client_id
        )
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=encode_principal(client.principal),
            client_host_address=packed_address(client.session.host),
        )
        answered, _ = await self._channel.forward(
            envelope, timeout_ms=request.timeout_ms, is_repeatable=False
        )
        if answered is None:
            mutation = self._quotas.mutation
            quota = (
                None
                if mutation is None
                else mutation.of_client(client.principal.name, client.client_id)
            )
            response = await topic_requests.create_topics(self._controller, request, quota)
            if quota is not None:
                response.throttle_time_ms = self._quotas.throttled_by_mutation(quota)
            return response
        if answered.response_data is None:
            raise KafkaError(ErrorCode(answered.error_code))
        _, forwarded = codec.decode_response(
            answered.response_data, ApiKey.CREATE_TOPICS, _PERMISSIVE_VERSION
        )
        assert isinstance(forwarded, CreateTopicsResponse)
        return forwarded


def _topic(
    name: str, partition_count: int, replication_factor: int, configs: Mapping[str, str]
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
