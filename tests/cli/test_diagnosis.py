"""`barnabas group describe` says why a group does not get on (CON-119)."""

import subprocess
from collections.abc import Callable

from tests.support.barnabas_process import barnabas_command
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import DEADLINE_SECONDS


def produce(bootstrap: str, topic: str, lines: list[str]) -> None:
    """A record a line; it reads a real standard input."""
    command = [str(barnabas_command()), "produce", topic, "-b", bootstrap]
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(command, input=text, text=True, check=True, timeout=DEADLINE_SECONDS)


def test_a_group_without_members_is_told_in_words_and_as_data(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """What a person reads and what a program reads are the same finding (CON-102)."""
    cli = CommandLine(bootstrap)
    topic, group = unique("orders"), unique("billing")
    cli.run("topic", "create", topic, "--partitions", "1")
    produce(bootstrap, topic, ["one", "two", "three"])
    cli.run("consume", topic, "--group", group, "--from-beginning", "--max-records", "1")
    shown = cli.run("group", "describe", group).stdout
    assert f"  warning: No members: 2 records wait in {topic}-0.\n" in shown
    assert f"barnabas group describe {group}\n" not in shown, "the command that was just given"
    (described,) = cli.json("group", "describe", group)
    (finding,) = described["diagnosis"]
    assert (finding["rule"], finding["state"]) == ("no_members", "warning")
    assert finding["command"] == f"barnabas group describe {group}"
    (row,) = described["partition_list"]
    assert 0 <= row["lag_seconds"] == described["lag_seconds"] < DEADLINE_SECONDS
    cli.run("consume", topic, "--group", group, "--max-records", "2")
    (described,) = cli.json("group", "describe", group, "--watch", "100ms")
    assert (described["lag"], described["lag_seconds"]) == (0, 0)
    assert described["diagnosis"][0]["state"] == "fine"


def test_a_duration_that_is_none_is_refused(bootstrap: str, unique: Callable[[str], str]) -> None:
    """Before anything is asked of the cluster."""
    error = CommandLine(bootstrap).error("group", "describe", "any", "--watch", "soon", code=2)
    assert "'soon' is no duration" in error
