"""What a job is, and how one is run from a command line.

    JOB = Job(name="archive", summary="...", options=(...), plan=plan, run=run)

    if __name__ == "__main__":
        sys.exit(main_of("archive"))

Run without Spark: `--help`; `options` (a YAML file to start from); `--dry-run` (the plan, with what
the cluster says now). Exit codes: 0 done, 1 failed with one line that says why, 2 wrong use.

Not here: the options (`settings.py`), what jobs do. pyspark is imported only when a job runs.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs.failures import failure_line
from barnabas_pipelines.jobs.progress_bar import Report
from barnabas_pipelines.jobs.settings import JobOption, JobSettings, read_settings
from barnabas_pipelines.jobs.usage import help_text, yaml_template

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2

#: All jobs, by the names of their modules, in the order of the documentation.
JOB_NAMES: Final = ("archive", "replay", "aggregate", "snapshot", "quality", "lag_report")


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One line of a plan: a word such as `reads`, and what there is to say of it."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job is going to do, in order; the last lines say what is guaranteed."""

    lines: tuple[PlanLine, ...]

    @classmethod
    def of(cls, *lines: tuple[str, str]) -> Plan:
        """A plan of pairs of subject and text."""
        return cls(tuple(PlanLine(subject, text) for subject, text in lines))


def _accept_all(_: JobSettings) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: its name is that of its module, `plan` needs no Spark, `run` gets a session.

    `check` refuses settings that contradict each other, with OptionsError. A job with the option
    `via` gets a session with the connector only where that says so; one without, never. With
    `uses_tables` the session knows Delta Lake.
    """

    name: str
    summary: str
    options: tuple[JobOption, ...]
    plan: Callable[[JobSettings], Plan]
    run: Callable[[JobSettings, SparkSession, Report], None]
    check: Callable[[JobSettings], None] = _accept_all
    uses_tables: bool = False


def load_job(name: str) -> Job:
    """The `JOB` of a module in this package."""
    job = importlib.import_module(f"barnabas_pipelines.jobs.{name}").JOB
    assert isinstance(job, Job)
    return job


def main_of(name: str) -> int:
    """Run the job of this name with the arguments of this process; the exit code.

    A module that runs as `__main__` loads itself again under its own name, so that what Spark's
    workers get can be imported there.
    """
    return main(load_job(name), sys.argv[1:])


def main(job: Job, arguments: Sequence[str]) -> int:
    """Run a job with the arguments of a command line; the exit code."""
    rest = list(arguments)
    report = Report(job.name)
    if "--help" in rest or "-h" in rest:
        report.print_text(help_text(job.name, job.summary, job.options))
        return DONE
    if rest == ["options"]:
        report.print_text(yaml_template(job.name, job.summary, job.options))
        return DONE
    is_dry_run = _took(rest, "--dry-run")
    with_traceback = _took(rest, "--traceback")
    try:
        settings = read_settings(job.options, rest, _read_text)
        job.check(settings)
        plan = job.plan(settings)
        if is_dry_run:
            report.print_plan([(line.subject, line.text) for line in plan.lines])
            return DONE
        report.show_plan([(line.subject, line.text) for line in plan.lines])
        with _stopped_by_sigterm():
            job.run(settings, _session(job, settings), report)
    except OptionsError as error:
        report.failed(failure_line(error))
        return WRONG_USE
    except KeyboardInterrupt:
        report.failed("stopped; the next run goes on from where this one was")
        return FAILED
    except Exception as error:  # the command line is where every failure becomes one line
        if with_traceback:
            traceback.print_exc()
        report.failed(failure_line(error))
        return FAILED
    finally:
        report.close()
    return DONE


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM, which Kubernetes sends, do what Ctrl-C does: end in order, and say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _took(arguments: list[str], flag: str) -> bool:
    found = flag in arguments
    if found:
        arguments.remove(flag)
    return found


def _read_text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _session(job: Job, settings: JobSettings) -> SparkSession:
    from barnabas_pipelines.session import session

    values = settings.values
    return session(
        f"barnabas-{job.name}",
        master=values.get("master"),
        with_connector=values.get("via") == "connector",
        with_tables=job.uses_tables,
        conf=values.get("conf"),
        log_level="ERROR",
    )
