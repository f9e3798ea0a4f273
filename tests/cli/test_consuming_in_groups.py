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
        (described,) = cli.json("group", "describe", group)
        shown = cli.run("group", "describe", group, "--members").stdout
        second = cli.run("consume", topic, "--group", group, "--timeout", "3")
    finally:
        first.terminate()
        first.wait(DEADLINE_SECONDS)
    assert f"other members of group '{group}'" in second.stderr
    assert f"barnabas group describe {group} --members" in second.stderr
    (member,) = described["members"]
    assert (member["epoch"], member["protocol"]) == (described["assignment_epoch"], "consumer")
    assert member["target"] == member["partitions"] == [f"{topic}-0"]
    assert "EPOCH" in shown
    assert f"epoch {described['group_epoch']}, assigned" in shown


def produce(bootstrap: str, topic: str, lines: list[str]) -> None:
    """A record a line; it reads a real standard input."""
    command = [str(barnabas_command()), "produce", topic, "-b", bootstrap]
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(command, input=text, text=True, check=True, timeout=DEADLINE_SECONDS)


def test_a_group_does_not_remember_records_that_a_closed_output_did_not_take(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """`consume --group | head`: a poll hands out 500, of which somebody saw five."""
    cli = CommandLine(bootstrap)
    topic, group = unique("head"), unique("head")
    cli.run("topic", "create", topic, "--partitions", "1")
    lines = [f"{number:07}{'x' * 300}" for number in range(2000)]
    produce(bootstrap, topic, lines)
    command = [str(barnabas_command()), "consume", topic, "-g", group, "--from-beginning"]
    with subprocess.Popen(
        [*command, "--timeout", "5", "-b", bootstrap], stdout=subprocess.PIPE, text=True
    ) as consuming:
        assert consuming.stdout is not None
        shown = [consuming.stdout.readline().strip() for _ in range(5)]
        consuming.stdout.close()
        assert consuming.wait(DEADLINE_SECONDS) == 141, "as a shell says of SIGPIPE"
    assert shown == lines[:5]
    again = cli.run("consume", topic, "--group", group, "--from-beginning", "--timeout", "3")
    # A pipe holds some that nobody has read; none of those that came later may be missing.
    assert again.stdout.split()[-1] == lines[-1]
    assert len(again.stdout.split()) >= len(lines) - 5


def test_a_group_reads_everything_although_runs_end_in_a_stream_of_records(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """What came behind the end that was there at the start is not shown, so it is not committed."""
    cli = CommandLine(bootstrap)
    topic, group = unique("late"), unique("late")
    cli.run("topic", "create", topic, "--partitions", "1")
    seen: list[str] = []
    for number in range(3):
        produce(bootstrap, topic, [f"{number}-{n}" for n in range(50)])
        options = ("--from-beginning", "--timeout", "3", "--max-records", "20")
        seen += cli.run("consume", topic, "--group", group, *options).stdout.split()
    seen += cli.run("consume", topic, "--group", group, "--timeout", "3").stdout.split()
    assert seen == [f"{number}-{n}" for number in range(3) for n in range(50)]
