"""What AlterConfigs and IncrementalAlterConfigs have in common: one result for each resource."""

from typing import Protocol, TypeVar

from barnabas_protocol.errors import ErrorCode, KafkaError


class ResourceAnswer(Protocol):
    """The element that both responses have for a resource, under two names."""

    def __init__(
        self, *, error_code: int, error_message: str | None, resource_type: int, resource_name: str
    ) -> None: ...


ResultType = TypeVar("ResultType", bound=ResourceAnswer)


class Resource(Protocol):
    """What names a resource: an element of either request, or a result of the controller."""

    @property
    def resource_type(self) -> int:
        """The number of its type on the wire."""
        ...

    @property
    def resource_name(self) -> str:
        """Its name within the type."""
        ...


def resource_result(
    result: type[ResultType], resource: Resource, error: KafkaError | None
) -> ResultType:
    """The result for one resource: changed, or why not."""
    return result(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
