"""Clients outside of the cluster: this process, by whatever the external listener is reached by."""

import asyncio
from pathlib import Path
from typing import Any

from barnabas_client import Consumer, Producer
from barnabas_client.config.properties_file import client_settings_in
from barnabas_protocol.settings.properties import parse_properties
from tests.e2e.support.kubectl import Kubectl

NODE = "10.244.255.1"
"""The address of a node of the lab."""
EXCHANGE_SECONDS = 60


def user_settings(kubectl: Kubectl, user: str, directory: Path) -> dict[str, Any]:
    """What the Secret of a User says, with its files in a directory."""
    files = kubectl.secret(user)
    (directory / "ca.crt").write_text(files["ca.crt"])
    text = files["client.properties"].replace("/etc/barnabas/user", str(directory))
    return client_settings_in(parse_properties(text))


async def exchange(settings: dict[str, Any], bootstrap: str, topic: str, group_id: str) -> None:
    """Write a record and read it back. Raises: TimeoutError, BarnabasError."""
    given = {**settings, "bootstrap_servers": bootstrap}
    value = f"{bootstrap} by {settings.get('security_protocol', 'PLAINTEXT')}".encode()
    async with asyncio.timeout(EXCHANGE_SECONDS):
        async with Producer(**given) as producer:
            await producer.send(topic, value)
            await producer.flush()
        async with Consumer(**given, group_id=group_id, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            async for record in consumer:
                if record.value == value:
                    return
    raise AssertionError("the consumer has ended")
