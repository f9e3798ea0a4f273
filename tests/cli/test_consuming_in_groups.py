"""`barnabas consume --group` beside other members."""

import subprocess
from collections.abc import Callable

import pytest

from barnabas_cli import consume
from tests.support.barnabas_process import barnabas_command
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import DEADLINE_SECONDS
from tests.support.waiting import wait_until


def test_a_member_without_a_partition_is_told_why(
    bootstrap: str, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence would look like an empty topic."""
    monkeypatch.setattr(consume, "_HINT_MS", 100)
    cli = CommandLine(bootstrap)
    topic, group = unique("single"), unique("crowded")
    cli.run("topic", "create", topic, "--partitions", "1")
    first = subprocess.Popen(
        [str(barnabas_command()), "consume", topic, "--group", group, "-f", "-b", bootstrap],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:

        def members() -> int:
            return sum(
                row["member_count"]
                for name in [row["group"] for row in cli.json("group", "list")]
                if name == group
                for row in cli.json("group", "describe", name)
                if row["state"] == "Stable"
            )

        wait_until(lambda: members() == 1, DEADLINE_SECONDS, lambda: str(members()))
        second = cli.run("consume", topic, "--group", group, "--timeout", "3")
    finally:
        first.terminate()
        first.wait(DEADLINE_SECONDS)
    assert f"other members of group '{group}'" in second.stderr
    assert f"barnabas group describe {group} --members" in second.stderr
