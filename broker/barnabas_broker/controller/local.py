"""The active controller as other parts of brokers speak to it: request messages in, responses out.

One path for brokers elsewhere, whose requests come through handlers, and for the one in the
controller's own process (`channel`). What the controller refuses is in the response, as on the
wire: nothing is raised.

Versions: every field of the newest version of a request is looked at; older ones have defaults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final

from barnabas_broker.controller import topic_requests
from barnabas_broker.controller.broker_commands import OWN_PROCESS
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.features import FeatureChange, FeatureRange, UpgradeType
from barnabas_broker.controller.heartbeats import Heartbeat
from barnabas_broker.metadata.records import ListenerAddress
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas_protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas_protocol.messages.create_topics import CreateTopicsRequest
from barnabas_protocol.messages.report_lost_replicas import (
    ReportLostReplicasRequest,
    ReportLostReplicasResponse,
)
from barnabas_protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas_protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

# By the numbers that registrations carry.
SECURITY_PROTOCOLS: Final = dict(enumerate(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")))


class LocalController:
    """The controller of this process; it says itself when it is not the active one."""

    __slots__ = ("_controller",)

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def answer(self, request: Any, connection: Hashable = OWN_PROCESS) -> Any:
        """The response message to a request message that came by a connection.

        Raises: TypeError for a request that is not the controller's to answer.
        """
        handlers: dict[type, Callable[[Any], Awaitable[Any]]] = {
            AlterPartitionRequest: self._controller.alter_partitions,
            CreateTopicsRequest: self._create_topics,
            BrokerRegistrationRequest: lambda asked: self._register(asked, connection),
            BrokerHeartbeatRequest: lambda asked: self._heartbeat(asked, connection),
            UnregisterBrokerRequest: self._unregister,
            AllocateProducerIdsRequest: self._allocate,
            AssignReplicasToDirsRequest: self._assign,
            UpdateFeaturesRequest: self._update_features,
            ReportLostReplicasRequest: self._lost,
        }
        handle = handlers.get(type(request))
        if handle is None:
            raise TypeError(f"{type(request).__name__} is not the controller's")
        try:
            return await handle(request)
        except KafkaError as error:
            return failed(request, error)

    async def _create_topics(self, request: CreateTopicsRequest) -> Any:
        return await topic_requests.create_topics(self._controller, request)

    async def _register(
        self, request: BrokerRegistrationRequest, connection: Hashable
    ) -> BrokerRegistrationResponse:
        epoch = await self._controller.register_broker(registration_of(request), connection)
        return BrokerRegistrationResponse(broker_epoch=epoch)

    async def _heartbeat(
        self, request: BrokerHeartbeatRequest, connection: Hashable
    ) -> BrokerHeartbeatResponse:
        reply = await self._controller.heartbeat(
            Heartbeat(
                node_id=request.broker_id,
                broker_epoch=request.broker_epoch,
                metadata_offset=request.current_metadata_offset,
                wants_fence=request.want_fence,
                wants_shut_down=request.want_shut_down,
                offline_directories=tuple(request.offline_log_dirs),
                cordoned_directories=tuple(request.cordoned_log_dirs or ()),
            ),
            connection,
        )
        return BrokerHeartbeatResponse(
            is_caught_up=reply.is_caught_up,
            is_fenced=reply.is_fenced,
            should_shut_down=reply.should_shut_down,
        )

    async def _unregister(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        await self._controller.unregister_broker(request.broker_id)
        return UnregisterBrokerResponse(error_message=None)

    async def _allocate(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        block = await self._controller.allocate_producer_ids(
            request.broker_id, request.broker_epoch
        )
        return AllocateProducerIdsResponse(
            producer_id_start=block.first, producer_id_len=block.size
        )

    async def _assign(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        codes = await self._controller.assign_replicas(
            request.broker_id,
            request.broker_epoch,
            {
                (topic.topic_id, partition.partition_index): directory.id
                for directory in request.directories
                for topic in directory.topics
                for partition in topic.partitions
            },
        )
        return AssignReplicasToDirsResponse(
            directories=[
                AssignReplicasToDirsResponseDirectoryData(
                    id=directory.id,
                    topics=[
                        AssignReplicasToDirsResponseTopicData(
                            topic_id=topic.topic_id,
                            partitions=[
                                AssignReplicasToDirsResponsePartitionData(
                                    partition_index=partition.partition_index,
                                    error_code=codes[topic.topic_id, partition.partition_index],
                                )
                                for partition in topic.partitions
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )

    async def _lost(self, request: ReportLostReplicasRequest) -> ReportLostReplicasResponse:
        places = [(topic.topic_id, index) for topic in request.topics for index in topic.partitions]
        await self._controller.replicas_lost(request.broker_id, request.broker_epoch, places)
        return ReportLostReplicasResponse()

    async def _update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        changes = [_feature_change(asked) for asked in request.feature_updates]
        await self._controller.update_features(changes, request.validate_only)
        return UpdateFeaturesResponse(
            error_message=None,
            results=[
                UpdatableFeatureResult(feature=change.name, error_message=None)
                for change in changes
            ],
        )


def registration_of(request: BrokerRegistrationRequest) -> Registration:
    """A broker's registration as its request tells it; it is unfenced later (REG-1, REG-6).

    Raises: KafkaError 119 for a security protocol that there is not.
    """
    try:
        listeners = tuple(
            ListenerAddress(
                listener.name,
                listener.host,
                listener.port,
                SECURITY_PROTOCOLS[listener.security_protocol],
            )
            for listener in request.listeners
        )
    except KeyError:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "unknown security protocol") from None
    return Registration(
        node_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        cluster_id=request.cluster_id,
        listeners=listeners,
        rack=request.rack,
        directories=tuple(request.log_dirs),
        features={
            feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
            for feature in request.features
        },
        previous_broker_epoch=request.previous_broker_epoch,
        is_fenced=True,
    )


def _feature_change(asked: FeatureUpdateKey) -> FeatureChange:
    """One change; version 0 says with a boolean whether the level may be lowered."""
    kind = UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else asked.upgrade_type
    return FeatureChange(name=asked.feature, level=asked.max_version_level, upgrade_type=kind)


def failed(request: Any, error: KafkaError) -> Any:
    """The response to a request that is refused as a whole."""
    match request:
        case CreateTopicsRequest():
            return topic_requests.failed(request, error)
        case AlterPartitionRequest():
            return AlterPartitionResponse(error_code=error.code)
        case BrokerRegistrationRequest():
            return BrokerRegistrationResponse(error_code=error.code)
        case BrokerHeartbeatRequest():
            return BrokerHeartbeatResponse(error_code=error.code)
        case UnregisterBrokerRequest():
            return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(error_code=error.code)
        case AssignReplicasToDirsRequest():
            return AssignReplicasToDirsResponse(error_code=error.code)
        case UpdateFeaturesRequest():
            return _failed_update(request, error)
        case ReportLostReplicasRequest():
            return ReportLostReplicasResponse(error_code=error.code)
    raise error


def _failed_update(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # it is not about features
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    return UpdateFeaturesResponse(
        error_code=error.code,
        error_message=error.message,
        results=[
            UpdatableFeatureResult(
                feature=asked.feature, error_code=error.code, error_message=error.message
            )
            for asked in request.feature_updates
        ],
    )
