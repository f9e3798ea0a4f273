"""What others see of a group: by the admin client, and by the command line that people use."""

import asyncio
import json
import subprocess
from typing import Any

from barnabas_client.admin import Admin
from tests.support.barnabas_process import barnabas_command


def committed(bootstrap: str, group_id: str) -> dict[tuple[str, int], int]:
    """The group's offsets by topic and partition."""

    async def ask() -> dict[tuple[str, int], int]:
        async with Admin(bootstrap) as admin:
            found = (await admin.group_offsets.list([group_id])).unwrap()[group_id]
            return {
                (key.topic, key.partition): one.offset
                for key, one in found.items()
                if one is not None
            }

    return asyncio.run(ask())


def described(bootstrap: str, group_id: str) -> Any:
    """What `barnabas group describe` prints of the group."""
    command = [str(barnabas_command()), "group", "describe", group_id]
    done = subprocess.run(
        [*command, "--bootstrap-server", bootstrap, "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
