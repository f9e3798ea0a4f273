"""Changes of this broker's own listeners, tried before they are recorded: a certificate may not do.

Only the broker itself can read the files that its settings name, so it tries them wherever the
request arrives: on this broker, as Kafka's clients send it. What is changed for another broker is
told in that broker's log and `/status`. Nothing is tried for who may not change it.

Source: SEC-5; KIP-226.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.listener_properties import split_listener_key
from barnabas_broker.controller.configs import (
    ConfigRefusal,
    ResourceChange,
    alter_configs,
)
from barnabas_broker.handlers.authorization import may_cluster
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import RESOURCE_BROKER
from barnabas_broker.metadata.records import ConfigRecord
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode, KafkaError


async def unservable(
    services: Services,
    in_flight: InFlightRequest,
    resources: Sequence[ResourceChange],
    *,
    is_incremental: bool,
) -> KafkaError | None:
    """Why this broker's listeners could not serve with what the changes make of their settings."""
    name = str(services.logs.node_id)
    own = [one for one in resources if (one.resource_type, one.resource_name) == _own(name)]
    if not any(split_listener_key(change.key) for one in own for change in one.changes):
        return None
    if not may_cluster(services, in_flight, AclOperation.ALTER_CONFIGS, is_filter=True):
        return None
    image, dynamic = services.image, services.dynamic
    records, _ = alter_configs(
        image, own, broker_values=dynamic.values, is_incremental=is_incremental
    )
    overrides = dict(image.config_overrides(*_own(name)))
    for record in records:
        if isinstance(record, ConfigRecord):
            overrides.pop(record.key, None)
            if record.value is not None:
                overrides[record.key] = record.value
    try:
        await services.check_listeners(dynamic.values_with(overrides))
    except ConfigError as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    return None


def refusing(services: Services, rights: ConfigRefusal, error: KafkaError | None) -> ConfigRefusal:
    """What refuses by rights, and then this broker's settings with the error, if there is one."""

    def refusal(resource_type: int, name: str) -> KafkaError | None:
        is_own = (resource_type, name) == _own(str(services.logs.node_id))
        return rights(resource_type, name) or (error if is_own else None)

    return refusal


def _own(name: str) -> tuple[int, str]:
    return RESOURCE_BROKER, name
