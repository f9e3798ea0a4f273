"""Whether share groups are switched on in the cluster. Source: SHR-1."""

from barnabas_broker.controller.features import SHARE_VERSION
from barnabas_broker.handlers.services import Services
from barnabas_protocol.errors import ErrorCode, KafkaError


def is_on(services: Services) -> bool:
    """Whether the cluster has finalized a level of `share.version` above 0."""
    return services.image.features.get(SHARE_VERSION, 0) > 0


def check_share_version(services: Services) -> None:
    """Refuse what belongs to share groups while they are off. Raises: KafkaError 35."""
    if not is_on(services):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
