"""The commands against a real broker, as a new user would type them."""

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from barnabas_cli import topic as topic_command
from barnabas_cli.main import main
from barnabas_client import Admin
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_protocol.ids import TopicPartition
from tests.support.barnabas_process import barnabas_command
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import DEADLINE_SECONDS
from tests.support.waiting import wait_until

MANIFEST = """\
apiVersion: barnabas.dev/v1alpha1
kind: Topic
metadata:
  name: {name}
spec:
  partitions: {partitions}
  config:
    retention.ms: 86400000
"""


@pytest.fixture
def cli(bootstrap: str) -> CommandLine:
    return CommandLine(bootstrap)


@pytest.fixture
def topic(cli: CommandLine, unique: Callable[[str], str]) -> str:
    """A topic with two partitions."""
    name = unique("orders")
    cli.run("topic", "create", name, "--partitions", "2")
    return name


def becomes(look: Callable[[], Any], expected: object) -> None:
    """Apache Kafka shows changes a moment after it has made them."""
    wait_until(lambda: look() == expected, DEADLINE_SECONDS, lambda: str(look()))


def piped(bootstrap: str, text: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own, fed through a pipe."""
    return subprocess.run(
        [str(barnabas_command()), *arguments],
        input=text,
        capture_output=True,
        timeout=60,
        env={**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": bootstrap},
    )


def typed(bootstrap: str, text: str, *arguments: str) -> tuple[int, str]:
    """The command on a terminal where somebody types; its exit code and all that is shown."""
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(
        [str(barnabas_command()), *arguments],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": bootstrap},
    ) as process:
        os.close(terminal)
        os.write(keyboard, text.encode())
        assert process.stdout is not None
        shown = process.stdout.read().decode()
        os.close(keyboard)
        return process.wait(60), shown


def test_a_new_topic_is_said_and_a_near_name_is_asked_about(
    bootstrap: str, cli: CommandLine, topic: str, tmp_path: Path
) -> None:
    """On a terminal alone: a script is never asked."""
    lines = tmp_path / "lines"
    lines.write_text("one\n")
    mistyped = f"{topic}x"
    produce = ("produce", mistyped, "--file", str(lines))
    code, shown = typed(bootstrap, "n\n", *produce)
    assert (code, f"but '{topic}'. Create '{mistyped}'?" in shown) == (130, True), shown
    assert mistyped not in {row["topic"] for row in cli.json("topic", "list")}
    code, shown = typed(bootstrap, "y\n", *produce)
    assert (code, f"Topic {mistyped} is new" in shown) == (0, True), shown
    code, shown = typed(bootstrap, "", *produce)
    assert (code, "is new" in shown, "1 record written" in shown) == (0, False, True), shown
    code, shown = typed(bootstrap, "", "produce", f"{topic}y", "--file", str(lines), "--yes")
    assert (code, f"Topic {topic}y is new" in shown) == (0, True), shown
    written = piped(bootstrap, b"one\n", "produce", f"{topic}z")
    assert written.returncode == 0
    told = written.stderr.decode()
    assert f"Topic {topic}z is new" in told
    assert "Did you mean '" in told, "a typing mistake of a script"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_question_that_is_asked_between_requests_ends_by_a_signal(
    bootstrap: str, cli: CommandLine, topic: str, number: signal.Signals, code: int
) -> None:
    """The handlers of an event loop only cancel its task, and that waits for what is typed."""
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(
        [str(barnabas_command()), "produce", f"{topic}x", "-b", bootstrap],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A job in the background ignores it, and so would its child.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        os.close(terminal)
        assert process.stdout is not None
        shown = b""
        while not shown.endswith(b"[y/N]: "):
            shown += os.read(process.stdout.fileno(), 1000)
        state = Path(f"/proc/{process.pid}/stat")
        wait_until(
            lambda: state.read_text().rpartition(")")[2].split()[0] == "S",
            DEADLINE_SECONDS,
            state.read_text,
        )
        process.send_signal(number)
        try:
            assert process.wait(DEADLINE_SECONDS) == code
        finally:
            process.kill()
            os.close(keyboard)
        assert b"Traceback" not in process.stdout.read()
    assert f"{topic}x" not in {row["topic"] for row in cli.json("topic", "list")}


def test_a_pipe_that_takes_long_shows_how_much_was_sent(bootstrap: str, topic: str) -> None:
    """On a terminal; what ends within a second says nothing but its result."""
    reader, terminal = pty.openpty()
    shown = b""
    with subprocess.Popen(
        [str(barnabas_command()), "produce", topic, "-b", bootstrap],
        stdin=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:
        os.close(terminal)
        assert process.stdin is not None
        written = 0

        def is_shown() -> bool:
            nonlocal shown, written
            assert process.stdin is not None
            process.stdin.write(b"line\n")
            process.stdin.flush()
            written += 1
            if select.select([reader], [], [], 0)[0]:
                shown += os.read(reader, 10_000)
            return b" bytes" in shown

        wait_until(is_shown, DEADLINE_SECONDS, lambda: str(shown))
        process.stdin.close()
        while b" written to " not in shown:
            shown += os.read(reader, 10_000)
        assert process.wait(DEADLINE_SECONDS) == 0
        os.close(reader)
    assert f"{written} records written to {topic}".encode() in shown


def test_a_topic_s_life(cli: CommandLine, unique: Callable[[str], str]) -> None:
    """TOP-17: one command for each thing that is done to a topic."""
    name = unique("life")
    created = cli.run("topic", "create", name, "-p", "2", "-r", "1", "-c", "retention.ms=60000")
    assert created.stdout == f"created {name} with 2 partitions, 1 replica\n"
    assert "already exists" in cli.error("topic", "create", name)
    assert "exists already" in cli.run("topic", "create", name, "--if-not-exists").stdout
    (row,) = [row for row in cli.json("topic", "list") if row["topic"] == name]
    assert (row["partitions"], row["replicas"], row["leaders"], row["offline"]) == (2, 1, 2, 0)
    cli.run("topic", "alter", name, "-p", "3", "-c", "retention.ms=1000")

    def described() -> tuple[Any, Any]:
        (topic,) = cli.json("topic", "describe", name)
        return topic["config"], [part["end_offset"] for part in topic["partition_list"]]

    becomes(described, ({"retention.ms": "1000"}, [0, 0, 0]))
    assert cli.lines("topic", "describe", name)[0].startswith(f"{name}  id ")
    assert f"Did you mean '{name}'?" in cli.error("topic", "describe", name + "x")
    assert "Did you mean 'retention.ms'?" in cli.error(
        "topic", "alter", name, "-c", "retention.m=1"
    )
    assert "Did you mean 'retention.ms'?" in cli.error(
        "topic", "create", f"{name}x", "-c", "retention.m=1"
    )
    cli.run("topic", "alter", name, "-c", "retention.ms=7d", "-c", "segment.bytes=64MiB")
    becomes(
        lambda: cli.json("topic", "describe", name)[0]["config"],
        {"retention.ms": "604800000", "segment.bytes": "67108864"},
    )
    wrong = cli.error("topic", "alter", name, "-c", "retention.ms=7 fortnights", code=2)
    assert "such as 500ms, 90s, 1h30m" in wrong
    assert cli.run("topic", "delete", name, "--yes").stdout == f"deleted {name}\n"
    assert cli.run("topic", "delete", name, "--if-exists", "-y").stdout == "nothing to delete\n"


def test_creating_a_topic_warns_of_names_that_collide(
    cli: CommandLine, unique: Callable[[str], str]
) -> None:
    """TOP-17: of either sign, and not in what programs read; of no other name."""
    plain, dotted = unique("plain"), unique("with.dot")
    assert cli.run("topic", "create", plain).stderr == ""
    created = cli.run("topic", "create", dotted, "-o", "json")
    assert json.loads(created.stdout)[0]["created"]
    assert created.stderr.startswith("Warning: brokers take '.' and '_'")
    assert "collides" in cli.error("topic", "create", dotted.replace(".", "_"))


def test_what_is_made_anew_before_the_answer_is_not_deleted(
    bootstrap: str, cli: CommandLine, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question was about another topic of that name."""

    def confirm(question: str, *, is_confirmed: bool) -> None:
        if not is_confirmed:
            cli.run("topic", "delete", topic, "--yes")
            cli.run("topic", "create", topic, "--partitions", "1")

    monkeypatch.setattr(topic_command, "confirm", confirm)
    result = CliRunner().invoke(main, ["topic", "delete", topic, "-b", bootstrap])
    assert result.exit_code == 1, result.output
    becomes(
        lambda: [len(one["partition_list"]) for one in cli.json("topic", "describe", topic)], [1]
    )


def test_lines_become_records_and_records_lines(
    bootstrap: str, cli: CommandLine, topic: str
) -> None:
    written = piped(
        bootstrap, b"a:1\nb:\xff\nc:NULL\n", "produce", topic, "-K", ":", "--null", "NULL"
    )
    assert (written.returncode, written.stderr) == (0, f"3 records written to {topic}\n".encode())
    read = piped(bootstrap, b"", "consume", topic, "--keys")
    assert (read.returncode, sorted(read.stdout.splitlines())) == (
        0,
        [b"a\t1", b"b\t\xff", b"c\tnull"],
    )
    records = [json.loads(line) for line in cli.lines("consume", topic, "-F", "json")]
    assert {record["key"]: record.get("value") for record in records} == {
        "a": "1",
        "b": None,
        "c": None,
    }


def test_consuming_begins_and_ends_where_it_is_told(
    cli: CommandLine, topic: str, tmp_path: Path
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{number}\n" for number in range(10)))
    cli.run("produce", topic, "-f", str(lines), "-p", "0", "-z", "gzip", "-H", "source=file")

    def consumed(*options: str) -> str:
        return " ".join(cli.lines("consume", topic, *options))

    assert consumed() == "0 1 2 3 4 5 6 7 8 9"
    assert consumed("-n", "3") == "0 1 2"
    assert consumed("--offset", "7") == "7 8 9"
    assert consumed("--offset", "-1") == "9"
    assert consumed("--tail", "2") == "8 9"
    assert consumed("--from-timestamp", "1h", "-n", "1") == "0"
    assert consumed("--from-timestamp", "now") == ""
    assert consumed("-p", "1") == ""
    assert consumed("--follow", "--timeout", "0.2") == ""
    assert (
        consumed("--follow", "--from-beginning", "-n", "2", "-H") == "source=file\t0 source=file\t1"
    )
    assert consumed("-n", "1", "-F", "{partition}:{offset}={value}") == "0:0=0"
    assert "has no partition 9: there are 0 to 1" in cli.error("consume", topic, "-p", "9")
    assert "No such topic" in cli.error("consume", topic + "x")


def test_a_line_that_is_no_record_stops_with_its_number(
    cli: CommandLine, topic: str, tmp_path: Path
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("a:1\nb2\n")
    error = cli.error("produce", topic, "-f", str(lines), "-K", ":")
    assert error == "line 2: there is no key separator ':' (1 record written before)"


def test_a_group_is_described_reset_and_undone(
    cli: CommandLine, topic: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Issue 4: reset with preview and undo; a preview changes nothing."""
    group = unique("billing")
    lines = tmp_path / "lines.txt"
    lines.write_text("x\n" * 10)
    cli.run("produce", topic, "-f", str(lines), "-p", "1")
    assert len(cli.lines("consume", topic, "--group", group, "--from-beginning", "-n", "4")) == 4

    def committed() -> dict[int, tuple[int | None, int | None]]:
        (described,) = cli.json("group", "describe", group)
        return {
            row["partition"]: (row["committed"], row["lag"])
            for row in described["partition_list"]
            if row["committed"]
        }

    assert committed() == {1: (4, 6)}
    assert group in [row["group"] for row in cli.json("group", "list")]
    preview = cli.run("group", "reset", group, "--shift-by", "2")
    assert "--execute" in preview.stderr
    assert committed() == {1: (4, 6)}
    undo = tmp_path / "undo.csv"
    done = cli.run(
        "group", "reset", group, "--shift-by", "2", "--execute", "--undo-file", str(undo)
    )
    assert f"barnabas group reset {group} --from-file {undo} --execute" in done.stdout
    assert committed() == {1: (6, 4)}
    again = str(tmp_path / "again.csv")
    cli.run("group", "reset", group, "--from-file", str(undo), "--execute", "--undo-file", again)
    assert committed()[1] == (4, 6)
    rows = cli.json("group", "reset", group, "--to-datetime", "1h", "--topic", f"{topic}:1")
    assert rows["changes"][0] | {"note": ""} == {
        "topic": topic,
        "partition": 1,
        "old": 4,
        "new": 0,
        "change": -4,
        "note": "",
    }
    (row,) = cli.json("group", "reset", group, "--to-offset", "0", "--topic", f"{topic}:1")[
        "changes"
    ]
    assert (row["old"], row["new"]) == (4, 0)
    assert "has no partition 9: there are 0 to 1" in cli.error(
        "group", "reset", group, "--to-latest", "--topic", f"{topic}:1,9"
    )
    assert f"Did you mean '{group}'?" in cli.error("group", "describe", group[:-1])
    cli.run("group", "delete", group, "--yes")
    assert "No such group" in cli.error("group", "reset", group, "--to-latest")


def test_an_undone_reset_has_metadata_and_leader_epoch_again(
    cli: CommandLine, bootstrap: str, topic: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The undo file had the offset alone."""
    group, place = unique("billing"), TopicPartition(topic, 1)
    lines = tmp_path / "lines.txt"
    lines.write_text("x\n" * 10)
    cli.run("produce", topic, "-f", str(lines), "-p", "1")
    before = OffsetAndMetadata(4, 0, ' {"note": "a,b\r\nc"} ')

    async def commit() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            (await admin.group_offsets.alter(group, {place: before})).unwrap()

    async def committed() -> OffsetAndMetadata | None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            return (await admin.group_offsets.list([group])).unwrap()[group][place]

    asyncio.run(commit())
    undo, again = str(tmp_path / "undo.csv"), str(tmp_path / "again.csv")
    cli.run("group", "reset", group, "--to-latest", "--execute", "--undo-file", undo)
    assert asyncio.run(committed()) == OffsetAndMetadata(10)
    cli.run("group", "reset", group, "--from-file", undo, "--execute", "--undo-file", again)
    assert asyncio.run(committed()) == before


def test_a_new_group_can_be_given_offsets(
    cli: CommandLine, topic: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    group = unique("new")
    undo = str(tmp_path / "undo.csv")
    place = ["--topic", topic, "--execute", "--undo-file"]
    cli.run("group", "reset", group, "--to-latest", *place, undo)
    assert Path(undo).read_text() == f"{topic},0,-\n{topic},1,-\n"
    (described,) = cli.json("group", "describe", group)
    assert [row["committed"] for row in described["partition_list"]] == [0, 0]
    second = str(tmp_path / "second.csv")
    cli.run("group", "reset", group, "--from-file", undo, "--execute", "--undo-file", second)
    left = (
        cli.run("group", "describe", group, "-o", "json", code=0) if _exists(cli, group) else None
    )
    assert left is None or json.loads(left.stdout)[0]["partition_list"] == []


def _exists(cli: CommandLine, group: str) -> bool:
    """A group without members and offsets may vanish by itself."""
    return group in [row["group"] for row in cli.json("group", "list")]


def test_settings_are_shown_set_and_given_back(cli: CommandLine, topic: str) -> None:
    cli.run("config", "set", "topic", topic, "retention.ms=1000", "cleanup.policy=compact")

    def own() -> dict[str, str]:
        rows = cli.json("config", "describe", "topic", topic)
        return {row["name"]: row["value"] for row in rows if row["source"] == "dynamic-topic"}

    becomes(own, {"retention.ms": "1000", "cleanup.policy": "compact"})
    wrong = cli.error("config", "set", "topic", topic, "retention.m=1")
    assert "Did you mean 'retention.ms'?" in wrong
    cli.run("config", "delete", "topic", topic, "retention.ms", "cleanup.policy")
    becomes(own, {})
    everything = cli.json("config", "describe", "topic", topic, "--all")
    assert "retention.ms" in [row["name"] for row in everything]
    assert "No such broker '99'" in cli.error("config", "describe", "broker", "99")


def test_clients_are_told_to_push_metrics(cli: CommandLine, unique: Callable[[str], str]) -> None:
    """TEL-1: a subscription has settings like a topic, and is gone without them."""
    name = unique("producers")
    pairs = ("metrics=org.apache.kafka.producer.,a", "interval.ms=60000", "match=client_id=app.*")
    cli.run("config", "set", "client-metrics", name, *pairs)

    def own() -> dict[str, str]:
        rows = cli.json("config", "describe", "client-metrics", name)
        return {row["name"]: row["value"] for row in rows}

    becomes(own, dict(pair.split("=", 1) for pair in pairs))
    wrong = cli.error("config", "set", "client-metrics", name, "interval=1")
    assert "Did you mean 'interval.ms'?" in wrong
    becomes(lambda: {"name": name} in cli.json("config", "list", "client-metrics"), True)
    refused = cli.error("config", "set", "client-metrics", name, "match=colour=red")
    assert "Illegal client matching pattern: colour=red" in refused
    cli.run("config", "delete", "client-metrics", name, "metrics", "interval.ms", "match")
    becomes(own, {})
    becomes(lambda: {"name": name} in cli.json("config", "list", "client-metrics"), False)


def test_the_cluster_tells_its_health(cli: CommandLine, topic: str) -> None:
    status = cli.json("cluster", "status")
    assert status["health"] == "healthy"
    assert status["brokers"][0]["state"] == "ready"
    assert "healthy" in cli.lines("cluster", "status")[0]
    assert cli.json("cluster", "brokers")[0]["leaders"] >= 2
    assert cli.json("cluster", "describe")["controller"] == status["controller"]
    assert isinstance(cli.json("cluster", "features"), list)


def test_manifests_are_compared_and_applied(
    cli: CommandLine, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Issue 4: apply -f and diff -f; exit code 3 where there are differences."""
    name = unique("declared")
    manifest = tmp_path / "topic.yaml"
    manifest.write_text(MANIFEST.format(name=name, partitions=2))
    difference = cli.run("diff", "-f", str(manifest), code=3)
    assert difference.stdout.splitlines() == [
        f"+ topic {name}",
        "+   partitions: 2",
        "+   replicas: by default",
        "+   config retention.ms: 86400000",
    ]
    assert cli.run("apply", "-f", str(tmp_path)).stdout.endswith("1 of 1 change done\n")
    becomes(
        lambda: cli.run("apply", "-f", str(tmp_path), "--dry-run").stdout,
        "1 topic is as declared\n",
    )
    assert cli.json("diff", "-f", str(manifest)) == {
        "steps": [],
        "findings": [],
        "unchanged": [name],
    }
    manifest.write_text(MANIFEST.format(name=name, partitions=1))
    refused = cli.run("apply", "-f", str(manifest), code=1)
    assert "cannot lose partitions: it has 2, 1 are declared" in refused.stdout
    text = MANIFEST.format(name=name, partitions=3)
    changed = cli.run("apply", "-f", "-", text=text)
    assert "~   partitions: 2 → 3" in changed.stdout


def test_what_a_broker_does_not_serve_is_one_line(cli: CommandLine, bootstrap: str) -> None:
    """Issue 4: errors are one line. Without an authorizer Apache Kafka refuses, Barnabas too."""
    assert cli.error("acl", "list")


def test_topics_and_groups_complete(cli: CommandLine, topic: str, bootstrap: str) -> None:
    answer = subprocess.run(
        [str(barnabas_command())],
        env={
            **os.environ,
            "_BARNABAS_COMPLETE": "bash_complete",
            "COMP_WORDS": f"barnabas topic describe {topic[:-1]}",
            "COMP_CWORD": "3",
            "BARNABAS_COMPLETION_SECONDS": "30",
            "BARNABAS_BOOTSTRAP_SERVERS": bootstrap,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert f"plain,{topic}" in answer.stdout.splitlines()


def test_a_reader_that_goes_away_is_no_error(
    bootstrap: str, cli: CommandLine, topic: str, tmp_path: Path
) -> None:
    """`barnabas consume | head` ends without a word."""
    lines = tmp_path / "lines.txt"
    lines.write_text(f"{'x' * 100}\n" * 5000)
    cli.run("produce", topic, "-f", str(lines))
    with subprocess.Popen(
        [str(barnabas_command()), "consume", topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": bootstrap},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"x" * 100 + b"\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_a_group_with_members_is_shown_and_not_reset(
    bootstrap: str, cli: CommandLine, topic: str, unique: Callable[[str], str]
) -> None:
    """Issue 4: a reset checks that the group is empty. SIGTERM makes a member leave at once."""
    group = unique("live")

    def described() -> dict[str, Any]:
        if not _exists(cli, group):
            return {"members": [], "state": None, "partition_list": []}
        (found,) = cli.json("group", "describe", group)
        return dict(found)

    def is_stable() -> bool:
        shown = described()
        return shown["state"] == "Stable" and len(shown["members"]) == 1

    with subprocess.Popen(
        [str(barnabas_command()), "consume", topic, "--group", group, "--follow"],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": bootstrap},
    ) as member:
        wait_until(is_stable, DEADLINE_SECONDS, lambda: str(described()))
        (shown,) = described()["members"]
        assert shown["partitions"] == [f"{topic}-0", f"{topic}-1"]
        assert shown["client"] in cli.run("group", "describe", group, "--members").stdout
        refused = cli.error("group", "reset", group, "--to-earliest", "--topic", topic, "--execute")
        assert refused.startswith(f"group '{group}' is Stable with 1 member (")
        member.terminate()
        assert member.wait(60) == 143
    wait_until(
        lambda: described()["state"] in (None, "Empty"), DEADLINE_SECONDS, lambda: str(described())
    )


def test_quotas_are_set_listed_and_deleted(cli: CommandLine, unique: Callable[[str], str]) -> None:
    """QUO-1, KIP-546: of a client id and of a default; what is wrong is said before it is sent."""
    name = unique("reporting")
    done = cli.run("quota", "set", "--client-id", name, "producer_byte_rate=1000")
    assert done.stdout == f"client-id {name}: producer_byte_rate=1000\n"
    cli.run("quota", "set", "--default-user", "--client-id", name, "consumer_byte_rate=2000")

    def listed() -> dict[str, tuple[str, float]]:
        return {
            row["entity"]: (row["quota"], row["value"])
            for row in cli.json("quota", "list")
            if name in row["entity"]
        }

    both = {
        f"client-id {name}": ("producer_byte_rate", 1000.0),
        f"client-id {name}, user (default)": ("consumer_byte_rate", 2000.0),
    }
    becomes(listed, both)
    cli.run("quota", "delete", "--client-id", name, "producer_byte_rate")
    cli.run("quota", "delete", "--default-user", "--client-id", name, "consumer_byte_rate")
    becomes(listed, {})
    assert "Invalid configuration key" in cli.error("quota", "set", "--client-id", name, "rate=1")
    assert "not a number" in cli.error("quota", "set", "--client-id", name, "rate=much", code=2)
    assert "whom it limits" in cli.error("quota", "set", "producer_byte_rate=1", code=2)
    for key, value in (("request_percentage", 12.5), ("controller_mutation_rate", 0.5)):
        cli.run("quota", "set", "--user", name, "--client-id", name, f"{key}={value}")
        becomes(listed, {f"client-id {name}, user {name}": (key, value)})
        cli.run("quota", "delete", "--user", name, "--client-id", name, key)
    assert "must be greater than 0" in cli.error(
        "quota", "set", "--user", name, "request_percentage=0"
    )


def test_quotas_of_addresses_are_set_listed_and_deleted(cli: CommandLine) -> None:
    """QUO-1, KIP-612: of an address, and of those without their own."""
    rate = "connection_creation_rate"

    def listed() -> dict[str, float]:
        rows = cli.json("quota", "list")
        return {row["entity"]: row["value"] for row in rows if row["quota"] == rate}

    done = cli.run("quota", "set", "--ip", "192.0.2.7", f"{rate}=5")
    assert done.stdout == f"ip 192.0.2.7: {rate}=5\n"
    cli.run("quota", "set", "--default-ip", f"{rate}=1000000")
    becomes(listed, {"ip 192.0.2.7": 5.0, "ip (default)": 1_000_000.0})
    cli.run("quota", "delete", "--ip", "192.0.2.7", rate)
    cli.run("quota", "delete", "--default-ip", rate)
    becomes(listed, {})
    for options, words in (
        (("--ip", "192.0.2.7", "--user", "a"), "has no user"),
        (("--ip", "192.0.2.7", "--default-ip"), "not both"),
    ):
        assert words in cli.error("quota", "set", *options, f"{rate}=1", code=2)
    assert "is not a valid IP" in cli.error("quota", "set", "--ip", "host", f"{rate}=1")
