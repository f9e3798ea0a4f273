"""`barnabas consume --where`: the console's filter on the command line (CON-115)."""

from collections.abc import Callable
from pathlib import Path

from tests.support.command_line import CommandLine


def test_only_records_that_pass_the_filter_are_written(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    cli = CommandLine(bootstrap)
    topic = unique("filtered")
    cli.run("topic", "create", topic, "--partitions", "1")
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f'{{"n": {number}, "id": 9007199254740993}}\n' for number in range(9)))
    cli.run("produce", topic, "-f", str(lines))

    def numbers(where: str, *options: str) -> list[str]:
        lines = cli.lines("consume", topic, "--where", where, *options)
        return [line.split(": ")[1].split(",")[0] for line in lines]

    assert numbers("json.n>6") == ["7", "8"]
    assert numbers("json.n<=1 json.id=9007199254740993") == ["0", "1"]
    assert numbers("json.id=9007199254740992") == []
    assert numbers("json.n<5", "--tail", "2") == ["3", "4"]
    assert numbers("json.n>2", "-n", "1") == ["3"]
    assert numbers("offset=4 time<now partition=0") == ["4"]


def test_what_is_no_filter_is_refused(bootstrap: str) -> None:
    refused = CommandLine(bootstrap).error("consume", "any", "--where", "kay=1", code=2)
    assert "did you mean key" in refused
