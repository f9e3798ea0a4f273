"""ListGroups (key 16): versions 0-5, flexible from 3."""

from barnabas_protocol.schema import Message, array, int16, int32, string


class ListGroupsRequest(Message, versions=(0, 5), flexible=3):
    """Request of ListGroups."""

    states_filter: list[str] = array(string, since=4)
    types_filter: list[str] = array(string, since=5)


class ListedGroup(Message):
    """One element of `ListGroupsResponse.groups`."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4)
    group_type: str = string(since=5)


class ListGroupsResponse(Message, versions=(0, 5), flexible=3):
    """Response of ListGroups."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
