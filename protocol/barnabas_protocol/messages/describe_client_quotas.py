"""DescribeClientQuotas (key 48): versions 0-1, flexible from 1."""

from barnabas_protocol.schema import Message, array, boolean, float64, int8, int16, int32, string


class ComponentData(Message):
    """One element of `DescribeClientQuotasRequest.components`."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable=0)


class DescribeClientQuotasRequest(Message, versions=(0, 1), flexible=1):
    """Request of DescribeClientQuotas."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class EntityData(Message):
    """One element of `EntryData.entity`."""

    entity_type: str = string()
    entity_name: str | None = string(nullable=0)


class ValueData(Message):
    """One element of `EntryData.values`."""

    key: str = string()
    value: float = float64()


class EntryData(Message):
    """One element of `DescribeClientQuotasResponse.entries`."""

    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Message, versions=(0, 1), flexible=1):
    """Response of DescribeClientQuotas."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    entries: list[EntryData] | None = array(EntryData, nullable=0)
