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
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas_pipelines.errors import OptionsError, failure_line
from barnabas_pipelines.jobs.progress_bar import Report
from barnabas_pipelines.jobs.settings import JobOption, JobSettings, merged_settings
from barnabas_pipelines.jobs.usage import CommandLine, yaml_template

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2

_SESSION_END_SECONDS_MAX: Final = 10
"""How long a session is waited for that does not stop: Kubernetes kills after thirty."""


#: What a job is going to do, in order: a word such as `reads`, and its text; guarantees come last.
Plan = Sequence[tuple[str, str]]


def _accept_all(_: JobSettings) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: its name is that of its module, `plan` needs no Spark, `run` gets a session.

    `check` refuses settings that contradict each other, with OptionsError. A job with the option
    `via` gets a session with the connector only where that says so; one without, never. With
    `uses_tables`, or when an option `dead-letter-table` is given, the session knows Delta Lake.
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
    report = Report(job.name)
    if list(arguments) == ["options"]:
        report.print_text(yaml_template(job.name, job.summary, job.options))
        return DONE
    given: dict[str, Any] = {}
    try:
        given = CommandLine(job.name, job.summary, job.options).parse(arguments)
        settings = merged_settings(job.options, given, _read_text)
        job.check(settings)
        plan = job.plan(settings)
        if given["dry-run"]:
            report.print_plan(plan)
            return DONE
        report.show_plan(plan)
        with _stopped_by_sigterm(), _session(job, settings) as spark:
            job.run(settings, spark, report)
    except click.exceptions.Exit:
        return DONE  # the help is printed
    except OptionsError as error:
        report.failed(failure_line(error))
        return WRONG_USE
    except KeyboardInterrupt:
        report.failed("stopped; the next run goes on from where this one was")
        return FAILED
    except Exception as error:  # the command line is where every failure becomes one line
        if given.get("traceback"):
            traceback.print_exc()
        report.failed(failure_line(error))
        return FAILED
    finally:
        report.close()
    return DONE


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM, which Kubernetes sends, do what Ctrl-C does: end in order, with a line."""
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


def _read_text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


@contextmanager
def _session(job: Job, settings: JobSettings) -> Iterator[SparkSession]:
    """The session of a job; one that was started for it ends with it, and says nothing more.

    The job has the last word: what Spark's threads find when tasks are cut off and the context goes
    would otherwise be logged behind it, for as long as the JVM lives.
    """
    from pyspark import SparkContext

    from barnabas_pipelines.session import session

    is_own = SparkContext._active_spark_context is None
    values = settings.values
    spark = session(
        f"barnabas-{job.name}",
        master=values.get("master"),
        with_connector=values.get("via") == "connector",
        with_tables=job.uses_tables or values.get("dead-letter-table") is not None,
        conf=values.get("conf"),
        log_level="ERROR",
    )
    try:
        yield spark
    finally:
        if is_own:
            _end(spark)


def _end(spark: SparkSession) -> None:
    """Stop a session without a word.

    In a thread of its own, which has its own connection to the JVM: a signal may have left that of
    this thread in the middle of a call. One that does not stop ends with this process.
    """

    def end() -> None:
        spark.sparkContext.setLogLevel("OFF")
        spark.stop()

    thread = threading.Thread(target=end, name="session-end", daemon=True)
    thread.start()
    thread.join(_SESSION_END_SECONDS_MAX)
