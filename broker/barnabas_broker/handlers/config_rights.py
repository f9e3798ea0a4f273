"""Which right the settings of a resource need: on a topic or a group its own, else the cluster's.

Source: SEC-46, KIP-226.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas_broker.controller.configs import ConfigRefusal
from barnabas_broker.handlers.authorization import may
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.authorizer import CLUSTER_NAME
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError

_RIGHTS: Final[Mapping[int, tuple[AclResourceType, ErrorCode, str]]] = {
    RESOURCE_TOPIC: (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic"),
    RESOURCE_GROUP: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group"),
    **dict.fromkeys(
        (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS),
        (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster"),
    ),
}


def config_refusal(
    services: Services, in_flight: InFlightRequest, operation: AclOperation
) -> ConfigRefusal:
    """What refuses resources to who lacks DESCRIBE_CONFIGS or ALTER_CONFIGS on them.

    A type that there is not needs no right: its refusal is another one.
    """

    def refusal(resource_type: int, name: str) -> KafkaError | None:
        right = _RIGHTS.get(resource_type)
        if right is None:
            return None
        on, code, word = right
        on_name = CLUSTER_NAME if on is AclResourceType.CLUSTER else name
        if may(services, in_flight, operation, on, on_name):
            return None
        return KafkaError(code, f"{word} authorization failed.")

    return refusal
