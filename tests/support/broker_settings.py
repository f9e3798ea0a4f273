"""Changes of the dynamic settings of brokers, as an administrator requests them."""

from collections.abc import Mapping

from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import incremental_alter_configs
from tests.support.raw_client import RawClient

_BROKER = 4
SET, DELETE = 0, 1


async def alter(client: RawClient, name: str, broker: str, value: str | None) -> int:
    """Set or, with None, delete a setting of one broker, or of all (an empty name)."""
    return await alter_all(client, broker, {name: value})


async def alter_all(client: RawClient, broker: str, values: Mapping[str, str | None]) -> int:
    """Set or delete settings at once."""
    configs = [
        incremental_alter_configs.AlterableConfig(
            name=name, config_operation=DELETE if value is None else SET, value=value
        )
        for name, value in values.items()
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=_BROKER, resource_name=broker, configs=configs
    )
    response = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]),
    )
    code: int = response.responses[0].error_code
    return code
