"""What a job answers on a command line, as far as that needs no Spark."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas_pipelines.errors import DataLossError, OptionsError, TopicGoneError
from barnabas_pipelines.jobs import JOB_NAMES
from barnabas_pipelines.jobs.job import (
    DONE,
    FAILED,
    WRONG_USE,
    Job,
    Plan,
    load_job,
    main,
)
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_protocol.settings.kinds import BOOLEAN, NAMES, SIZE
from tests.pipelines.command_line import read_settings

OPTIONS = (
    JobOption("path", "Where to.", is_required=True),
    JobOption("size", "How large.", kind=SIZE, default="64 MiB"),
    JobOption("topics", "Which.", kind=NAMES, default=("a", "b")),
    JobOption("deep", "How deep.", kind=BOOLEAN, default=True),
)


def plan(settings: JobSettings) -> Plan:
    """A plan that depends on the settings."""
    if settings["path"] == "/gone":
        raise TopicGoneError("topic orders does not exist")
    return [("reads", "orders"), ("writes to", settings["path"])]


def never_run(*_: Any) -> None:
    """No test here may come so far."""
    raise AssertionError("Spark was to be started")


JOB = Job(name="example", summary="An example.", options=OPTIONS, plan=plan, run=never_run)


def test_a_dry_run_prints_the_plan_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """On the output, so that it can be kept; Spark is not started."""
    assert main(JOB, ["--path", "/a", "--dry-run"]) == DONE
    assert capsys.readouterr().out == "reads      orders\nwrites to  /a\n"


def test_a_plan_that_cannot_be_made_fails_with_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A dry run tells whether the job could start."""
    assert main(JOB, ["--path", "/gone", "--dry-run"]) == FAILED
    assert capsys.readouterr().err == "example: topic orders does not exist\n"


@pytest.mark.parametrize("arguments", [[], ["--path", "/a", "--sze", "1"], ["run"]])
def test_wrong_use_is_told_apart(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Code 2, one line, nothing on the output."""
    assert main(JOB, arguments) == WRONG_USE
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.startswith("example: ")
    assert caught.err.count("\n") == 1


def test_a_combination_that_the_job_refuses_is_wrong_use() -> None:
    """The table cannot know of two options that contradict each other."""

    def check(_: JobSettings) -> None:
        raise OptionsError("size and path contradict each other")

    job = Job(name="example", summary="", options=OPTIONS, plan=plan, run=never_run, check=check)
    assert main(job, ["--path", "/a", "--dry-run"]) == WRONG_USE


def test_help_has_every_option_and_the_required_ones_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Made of the same rows that are checked against."""
    assert main(JOB, ["--help"]) == DONE
    out = capsys.readouterr().out
    assert out.index("--path TEXT") < out.index("--size SIZE")
    assert "How large. (default: 64 MiB)" in out
    assert "--deep [true|false]" in out
    assert "--no-deep" in out
    assert "Where to. (required)" in out


@pytest.mark.parametrize("name", JOB_NAMES)
def test_the_template_of_every_job_is_a_file_that_it_accepts(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With every default written out, so that a user uncomments and changes."""
    job = load_job(name)
    assert main(job, ["options"]) == DONE
    template = capsys.readouterr().out
    required = {option.name for option in job.options if option.is_required}
    assert set(yaml.safe_load(template)) == required
    with_defaults = "\n".join(
        line.removeprefix("#")
        for line in template.splitlines()
        if not line.startswith("# ") and (line.startswith("#") or line)
    )
    written = yaml.safe_load(with_defaults)
    assert set(written) == {option.name for option in job.options}
    given = {
        option.name: written[option.name] for option in job.options if option.default is not None
    }
    given |= {
        option.name: option.choices[0] if option.choices else "x"
        for option in job.options
        if option.is_required
    }
    settings = read_settings(job.options, ["--config", "f"], lambda _: yaml.safe_dump(given))
    defaults = read_settings(
        job.options,
        [part for one in sorted(required) for part in (f"--{one}", str(given[one]))],
        lambda _: "",
    )
    assert settings.values == defaults.values


@pytest.mark.parametrize("name", JOB_NAMES)
def test_every_job_is_named_as_its_module_and_told_in_one_sentence(name: str) -> None:
    """The list of jobs and the documentation are made of it."""
    job = load_job(name)
    assert job.name == name
    assert job.summary.endswith(".")
    names = [option.name for option in job.options]
    assert len(names) == len(set(names))
    assert all(option.why.endswith(".") for option in job.options)


def test_modules_run_as_programs_with_and_without_a_package() -> None:
    """`python -m` names the module; `spark-submit` gets the path of its file."""
    module = [sys.executable, "-m", "barnabas_pipelines.jobs.archive", "--hepl"]
    path = Path(sys.modules[load_job("archive").run.__module__].__file__ or "")
    for command in (module, [sys.executable, str(path), "--hepl"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == WRONG_USE
        assert "Did you mean '--help'?" in done.stderr


def test_jobs_are_listed() -> None:
    """`python -m barnabas_pipelines.jobs`."""
    command = [sys.executable, "-m", "barnabas_pipelines.jobs"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    for name in JOB_NAMES:
        assert f"  {name} " in done.stdout


def test_errors_of_a_run_become_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is raised; a traceback only if it was asked for."""

    def broken(_: JobSettings) -> Plan:
        raise DataLossError("records are gone\nand more")

    job = Job(name="example", summary="", options=OPTIONS, plan=broken, run=never_run)
    assert main(job, ["--path", "/a"]) == FAILED
    assert capsys.readouterr().err == "example: records are gone and more\n"
    assert main(job, ["--path", "/a", "--traceback"]) == FAILED
    assert "Traceback" in capsys.readouterr().err
