"""The command line itself: wrong words, help, colours, completion, how failures end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas_cli.group import STATES
from barnabas_cli.main import COMMANDS
from barnabas_cli.output import Column, bytes_text, plain, table_lines
from barnabas_client.admin import GroupState
from barnabas_protocol.settings.suggestions import hint, nearest
from tests.support.barnabas_process import barnabas_command
from tests.support.command_line import CommandLine
from tests.support.processes import free_port

# Nobody listens there: commands that would connect fail at once.
NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topc"], "Did you mean 'topic'?"),
        (["topic", "lst"], "Did you mean 'list'?"),
        (["topic", "create", "a", "--partition", "3"], "Did you mean '--partitions'?"),
        (["topic", "create"], "Missing argument 'TOPICS...'"),
        (["topic", "alter", "a"], "Give a change"),
        (["topic", "create", "a", "-c", "x"], "--config takes KEY=VALUE, not 'x'"),
        (["topic", "list", "-o", "jsn"], "'jsn' is not one of"),
        (["group", "list", "--state", "stabl"], "'stabl' is not one of"),
        (["group", "reset", "g"], "exactly one of --to-earliest"),
        (["group", "reset", "g", "--to-latest", "--to-earliest"], "exactly one of"),
        (["group", "reset", "g", "--to-datetime", "x"], "'x' is no point in time such as"),
        (["group", "reset", "g", "--to-latest", "--topic", "a:"], "'a:' is not TOPIC"),
        (["share", "reset", "g"], "exactly one of --to-earliest"),
        (["share", "reset", "g", "--to-latest", "--execute", "--dry-run"], "exclude each other"),
        (["share", "consume", "t"], "Missing option '-g' / '--group'"),
        (["share", "consume", "t", "-g", "g", "-F", "{ky}"], "Did you mean 'key'?"),
        (["share", "list", "--state", "stabl"], "'stabl' is not one of"),
        (
            ["consume", "t", "--tail", "3", "--offset", "1"],
            "--offset and --tail exclude each other",
        ),
        (
            ["consume", "t", "--tail", "3", "--offset", "0"],
            "--offset and --tail exclude each other",
        ),
        (["consume", "t", "-g", "g", "--offset", "0"], "the group decides where it reads"),
        (["consume", "t", "-F", "{ky}"], "Did you mean 'key'?"),
        (["consume", "t", "-g", "g", "--tail", "3"], "the group decides where it reads"),
        (["produce", "t", "-H", "x"], "a header is name=value"),
        (["topic", "list", "-b", "nowhere"], "must be a host and a port"),
        (["config", "set", "topic", "t"], "Give the settings to set"),
        (["apply"], "Missing option '-f'"),
    ],
)
def test_a_wrong_command_line_gets_one_line_and_code_2(arguments: list[str], words: str) -> None:
    """Issue 4: an unknown option or name gets the nearest match; errors are one line."""
    error = CommandLine(NOWHERE).error(*arguments, code=2)
    assert words in error
    assert f"(see 'barnabas {arguments[0]}" in error or "(see 'barnabas --help')" in error


def test_groups_can_be_listed_by_every_state() -> None:
    assert {*STATES, GroupState.UNKNOWN} == set(GroupState)


def test_every_command_has_help_and_loads() -> None:
    for name in COMMANDS:
        assert "Usage: barnabas" in CommandLine().run(name, "--help").stdout


def test_a_cluster_that_is_not_there_is_told_at_once_with_what_to_do() -> None:
    error = CommandLine(NOWHERE).error("topic", "list")
    assert error == (
        "no broker responds at 127.0.0.1:1: start one ('barnabas dev') or name another with"
        " --bootstrap-server HOST:PORT"
    )


def test_a_name_that_does_not_resolve_is_told() -> None:
    """Issue 21: looking for a broker there would be in vain."""
    error = CommandLine("no-such-host.invalid:9092,127.0.0.1:1").error("topic", "list")
    assert error.startswith(
        "no broker responds at no-such-host.invalid:9092,127.0.0.1:1"
        " (the name no-such-host.invalid does not resolve): start one"
    )


def test_debug_shows_where_an_error_comes_from() -> None:
    for arguments in (["topic", "list", "--debug"], ["--debug", "topic", "list"]):
        result = CommandLine(NOWHERE).run(*arguments, code=1)
        assert "Traceback" in result.stderr


def test_the_address_on_the_command_line_wins() -> None:
    error = CommandLine(NOWHERE).error("topic", "list", "-b", "127.0.0.1:2")
    assert "127.0.0.1:2" in error
    assert "127.0.0.1:2" in CommandLine(NOWHERE).error("-b", "127.0.0.1:2", "topic", "list")


def test_the_address_in_a_properties_file_is_used(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=127.0.0.1:3\n")
    assert "127.0.0.1:3" in CommandLine().error("topic", "list", "--command-config", str(path))
    path.write_text("bootstrap.servers=127.0.0.1:3\nretry.backof.ms=4\n")
    error = CommandLine().error("topic", "list", "--command-config", str(path))
    assert "retry" in error or "127.0.0.1:3" in error


def test_ctrl_c_while_the_command_is_being_imported_shows_no_traceback() -> None:
    """Who presses it at once has mistyped something, and wants no lesson about imports."""
    program = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
import barnabas_cli.main
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
    after = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import barnabas_cli.main
print(signal.getsignal(signal.SIGINT))
"""
    done = subprocess.run([sys.executable, "-c", after], capture_output=True, text=True)
    assert "default_int_handler" in done.stdout


def test_scripts_must_say_yes_before_something_is_deleted() -> None:
    error = CommandLine(NOWHERE).error("user", "delete", "alice", code=2)
    assert "Use --yes" in error


def test_completion_prints_a_script_for_each_shell() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_BARNABAS_COMPLETE" in CommandLine().run("completion", shell).stdout
    assert "is not one of" in CommandLine().error("completion", "tcsh", code=2)


def completed(words: str, bootstrap: str) -> list[str]:
    """What the shell is told to propose for the last word."""
    answer = subprocess.run(
        [str(barnabas_command())],
        env={
            **os.environ,
            "_BARNABAS_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
            "BARNABAS_BOOTSTRAP_SERVERS": bootstrap,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert answer.stderr == ""
    return [line.partition(",")[2] for line in answer.stdout.split()]


def test_commands_complete_and_an_absent_cluster_proposes_nothing() -> None:
    assert completed("barnabas topic de", NOWHERE) == ["delete", "describe"]
    assert completed("barnabas topic describe or", NOWHERE) == []


def test_help_does_not_load_the_client() -> None:
    """`barnabas --help` and `barnabas broker` stay quick."""
    code = (
        "import sys; sys.argv = ['barnabas', '--help']\n"
        "from barnabas_cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "loaded = [name for name in ('asyncio', 'yaml', 'rich', 'barnabas_client') "
        "if name in sys.modules]\n"
        "sys.exit(str(loaded) if loaded else 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_tables_align_and_have_colours_only_where_they_are_wanted() -> None:
    columns = (
        Column(title="NAME", field="name"),
        Column(title="COUNT", field="count", is_right=True, style=lambda count: "red"),
    )
    rows = [{"name": "a", "count": 10}, {"name": "long", "count": None}]
    coloured = table_lines(rows, columns)
    assert coloured[1] == "a     \x1b[31m   10\x1b[0m"
    plain_lines = [line.replace("\x1b[31m", "").replace("\x1b[0m", "") for line in coloured]
    assert plain_lines[1:] == ["a        10", "long      -"]


def test_what_others_chose_cannot_drive_a_terminal() -> None:
    """A client id or a value may hold escape sequences."""
    column = Column(title="CLIENT", field="client")
    assert table_lines([{"client": "a\x1b[2J\tü"}], [column])[1] == "a\\x1b[2J\\tü"


def test_sizes_and_values_are_words() -> None:
    assert [bytes_text(size) for size in (0, 1023, 1536, 3 * 2**40, None, -1)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3 TiB",
        "-",
        "-",
    ]
    assert [plain(value) for value in (None, True, [1, 2], (), "x")] == [
        "-",
        "yes",
        "1,2",
        "-",
        "x",
    ]


def test_names_that_are_alike_are_found_whatever_their_case() -> None:
    assert nearest("ORDRES", ["orders", "customers"]) == "orders"
    assert hint("zzz", ["a", "b"]) == " There are: a, b."
    assert hint("zzz", []) == " There are none."
    assert hint("zzz", [str(number) for number in range(20)]) == ""


def test_dev_refuses_a_wrong_manifest_before_it_starts(tmp_path: Path) -> None:
    """Design 7: `barnabas dev -f`."""
    manifest = tmp_path / "topic.yaml"
    manifest.write_text("kind: Topic\n")
    error = CommandLine().error(
        "dev", "--port", str(free_port()), "--data", str(tmp_path / "data"), "-f", str(manifest)
    )
    assert f"{manifest}:1 (document 1)" in error
    assert not (tmp_path / "data").exists()
