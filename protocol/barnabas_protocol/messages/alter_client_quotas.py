"""AlterClientQuotas (key 49): versions 0-1, flexible from 1."""

from barnabas_protocol.schema import Message, array, boolean, float64, int16, int32, string


class EntityData(Message):
    """One element of `AlterClientQuotasRequestEntryData.entity`."""

    entity_type: str = string()
    entity_name: str | None = string(nullable=0)


class OpData(Message):
    """One element of `AlterClientQuotasRequestEntryData.ops`."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasRequestEntryData(Message):
    """One element of `AlterClientQuotasRequest.entries`."""

    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, versions=(0, 1), flexible=1):
    """Request of AlterClientQuotas."""

    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


class AlterClientQuotasResponseEntryData(Message):
    """One element of `AlterClientQuotasResponse.entries`."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Message, versions=(0, 1), flexible=1):
    """Response of AlterClientQuotas."""

    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
