"""Options of jobs: one table for the YAML file and the command line, and errors of one line."""

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs import archive, snapshot
from barnabas_pipelines.jobs.common_options import trigger_seconds
from barnabas_pipelines.jobs.job import Job
from barnabas_pipelines.jobs.settings import (
    DOCUMENT,
    JobOption,
    JobSettings,
    settings_of,
)
from barnabas_protocol.settings.kinds import BOOLEAN, DURATION, NAMES, NUMBER, PAIRS, SIZE
from tests.pipelines.command_line import read_settings

OPTIONS = (
    JobOption("path", "Where to.", is_required=True),
    JobOption("file-size", "How large.", kind=SIZE, default="64 MiB", minimum=1),
    JobOption("via", "How.", choices=("connector", "python"), default="connector"),
    JobOption("verify", "Look again.", kind=BOOLEAN, default=False),
    JobOption("topics", "Which.", kind=NAMES),
    JobOption("conf", "Settings of Spark.", kind=PAIRS),
    JobOption("settle", "How long.", kind=DURATION, default="5s"),
    JobOption("rules", "Anything.", kind=DOCUMENT),
    JobOption("rate", "How fast.", kind=NUMBER, minimum=0.5, maximum=10),
)


def read(*arguments: str, **files: str) -> JobSettings:
    """Settings of a command line; files by name without `.yaml`."""

    def text(path: str) -> str:
        if path.removesuffix(".yaml") not in files:
            raise FileNotFoundError(path)
        return files[path.removesuffix(".yaml")]

    return read_settings(OPTIONS, arguments, text)


def refusal(*arguments: str, **files: str) -> str:
    """What is said of a wrong command line; one line."""
    with pytest.raises(OptionsError) as caught:
        read(*arguments, **files)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_values_have_the_types_of_their_rows() -> None:
    """What a job gets needs no more parsing."""
    settings = read(
        *("--path", "/a", "--file-size=1 GiB", "--verify", "--topics", "a, b", "--rate", "2.5"),
        *("--conf", "spark.x=1", "--conf", "spark.y=a=b", "--settle", "2m"),
        *("--rules", "[{a: 1}]"),
    )
    assert settings["path"] == "/a"
    assert settings["file-size"] == 1 << 30
    assert settings["verify"] is True
    assert settings["topics"] == ("a", "b")
    assert settings["conf"] == {"spark.x": "1", "spark.y": "a=b"}
    assert settings["settle"] == 120_000
    assert settings["rules"] == [{"a": 1}]
    assert settings["rate"] == 2.5
    assert settings["via"] == "connector"
    assert "via" not in settings.given
    assert "rate" in settings.given


def test_a_yaml_file_says_the_same_with_its_own_types() -> None:
    """Numbers, truths, lists and mappings need no quotes there."""
    written = """
    path: /a
    file_size: 1073741824
    verify: true
    topics: [a, b]
    conf: {spark.x: 1, spark.y: true}
    settle: 500
    rules: {a: [1, 2]}
    """
    settings = read("--config", "job.yaml", job=written)
    assert settings["file-size"] == 1 << 30
    assert settings["verify"] is True
    assert settings["topics"] == ("a", "b")
    assert settings["conf"] == {"spark.x": "1", "spark.y": "true"}
    assert settings["settle"] == 500
    assert settings["rules"] == {"a": [1, 2]}


def test_the_command_line_wins_over_the_file() -> None:
    """Pairs are merged, because each name of them is an option of its own."""
    settings = read(
        *("--config", "job.yaml", "--path", "/line", "--no-verify", "--conf", "b=3"),
        job="{path: /file, verify: true, conf: {a: 1, b: 2}}",
    )
    assert settings["path"] == "/line"
    assert settings["verify"] is False
    assert settings["conf"] == {"a": "1", "b": "3"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--pth", "/a"], "No such option '--pth'. Did you mean '--path'?"),
        (["--zzzzzz", "/a"], "No such option '--zzzzzz'."),
        (["path"], "unexpected extra argument (path)"),
        ([], "--path is missing: Where to."),
        (["--path"], "'--path' requires an argument"),
        (["--path", "a", "--path", "b"], "--path is given twice"),
        (["--path", "a", "--via", "conector"], "'conector': it must be connector or python; did"),
        (["--path", "a", "--file-size", "big"], "'big': it must be a size such as"),
        (["--path", "a", "--file-size", "0"], "'0': the least is 1"),
        (["--path", "a", "--rate", "11"], "'11': the most is 10"),
        (["--path", "a", "--settle", "soon"], "'soon': it must be a duration"),
        (["--path", "a", "--conf", "spark.x"], "'spark.x': it must be NAME=VALUE"),
        (["--path", "a", "--rules", "{a"], "it must be YAML"),
        (["--path", "a", "--verify=maybe"], "'maybe': it must be true or false"),
        (["--dry-rum", "--path", "a"], "Did you mean '--dry-run'?"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: Sequence[str], said: str) -> None:
    """With the option, what was given, and what is possible."""
    assert said in refusal(*arguments)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{pth: /a}", "unknown option in job.yaml: pth; did you mean path?"),
        ("{file_size: 1, file-size: 2, path: a}", "file-size is given twice"),
        ("[path]", "--config job.yaml: it must be a mapping"),
        ("{a", "--config job.yaml is no YAML"),
        ("{path: [1, 2]}", "--path '[1, 2]': it must be one value"),
        ("{path: a, conf: 3}", "--conf '3': it must be a mapping"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(written: str, said: str) -> None:
    """The same checks, so that moving an option into a file changes nothing."""
    assert said in refusal("--config", "job.yaml", job=written)


@pytest.mark.parametrize(
    ("arguments", "is_verified"),
    [
        (["--verify"], True),
        (["--verify", "true"], True),
        (["--verify=false"], False),
        (["--no-verify"], False),
        (["--verify", "--topics", "a"], True),
        ([], False),
    ],
)
def test_a_truth_may_have_a_value(arguments: Sequence[str], is_verified: bool) -> None:
    """As in the file, and as other tools have it."""
    assert read("--path", "/a", *arguments)["verify"] is is_verified


def test_a_file_that_is_not_there_is_named() -> None:
    """The most common mistake of all."""
    assert "--config gone.yaml" in refusal("--config", "gone.yaml")


def test_settings_can_be_made_without_a_command_line() -> None:
    """Notebooks and tests name options as Python does."""
    settings = settings_of(OPTIONS, {"path": "/a", "file_size": 5})
    assert settings["file-size"] == 5
    with pytest.raises(OptionsError, match="did you mean verify"):
        settings_of(OPTIONS, {"path": "/a", "verfy": True})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("available-now", None), ("10 seconds", 10), ("1s", 1), ("5m", 300), ("2 hours", 7200)],
)
def test_triggers_are_written_as_people_do(text: str, seconds: Any) -> None:
    """Spark's own spelling among them."""
    assert trigger_seconds(text) == seconds


@pytest.mark.parametrize("text", ["0s", "500ms", "", "often", "-1 seconds", "1"])
def test_a_trigger_under_a_second_is_refused(text: str) -> None:
    """An idle query without a pause costs the brokers 300 requests a second."""
    with pytest.raises(ValueError, match="available-now or an interval"):
        trigger_seconds(text)


@pytest.mark.parametrize(
    ("job", "given"),
    [
        (archive.JOB, {"topics": "orders", "path": "/archive"}),
        (snapshot.JOB, {"topic": "orders", "table": "/orders"}),
    ],
)
@pytest.mark.parametrize("name", ["startingTimestamp", "ENDINGOFFSETS", "subscribe"])
def test_jobs_that_plan_what_they_read_refuse_options_that_say_else(
    job: Job, given: dict[str, str], name: str
) -> None:
    """Records before a timestamp were left out, and the table said that it had them."""
    options = {**given, "bootstrap-servers": "b:1", "source-option": {name: "1"}}
    with pytest.raises(OptionsError, match=f"--source-option {name} is decided here"):
        job.check(settings_of(job.options, options))
    more = {"source-option": {"kafka.fetch.max.bytes": "1"}}
    job.check(settings_of(job.options, {**options, **more}))
