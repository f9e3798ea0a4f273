"""DeleteGroups (key 42): versions 0-3, flexible from 2."""

from barnabas_protocol.schema import Message, array, int16, int32, string


class DeleteGroupsRequest(Message, versions=(0, 3), flexible=2):
    """Request of DeleteGroups."""

    groups_names: list[str] = array(string)


class DeletableGroupResult(Message):
    """One element of `DeleteGroupsResponse.results`."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(since=3, nullable=0, default=None)


class DeleteGroupsResponse(Message, versions=(0, 3), flexible=2):
    """Response of DeleteGroups."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
