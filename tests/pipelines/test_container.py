"""What the image `pipelines` runs for which arguments, and what it holds."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas_pipelines.container.command import (
    ContainerError,
    command,
    launched,
    launcher,
)
from barnabas_pipelines.jars import jar_names
from barnabas_pipelines.jobs import JOB_NAMES

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
JOBS = ROOT / "pipelines" / "barnabas_pipelines" / "jobs"
EXECUTOR = {
    "SPARK_HOME": "/spark",
    "JAVA_HOME": "/java",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "job-exec-3",
}


def test_a_job_is_called_by_its_name() -> None:
    """People and the chart write `archive --config ...`, not Python's module names."""
    assert command(["lag-report", "--group", "g"], {}) == [
        sys.executable,
        "-m",
        "barnabas_pipelines.jobs.lag_report",
        "--group",
        "g",
    ]


def test_anything_else_is_run_as_it_stands() -> None:
    """`python -m barnabas_pipelines.jobs.archive` and `python -c ...` work in the image, too."""
    given = ["python", "-m", "barnabas_pipelines.jobs.archive", "--help"]
    assert command(given, {}) == given


def test_no_arguments_are_answered_with_the_jobs() -> None:
    with pytest.raises(ContainerError, match="aggregate, archive, lag-report"):
        command([], {})


def test_the_jobs_of_the_image_are_the_modules_that_can_be_run() -> None:
    """What only helps jobs has no name; what only mentions how jobs end is no job."""
    runs = re.compile(r"^    sys\.exit\(main_of\(", re.MULTILINE)
    found = {path.stem for path in JOBS.glob("*.py") if runs.search(path.read_text())}
    assert found == set(JOB_NAMES)


def test_an_executor_is_told_what_its_driver_says() -> None:
    """The flags are those that KubernetesExecutorBackend parses."""
    variables = {**EXECUTOR, "SPARK_CONF_DIR": "/opt/spark/conf", "SPARK_JAVA_OPT_10": "-Dten"}
    found = command(["executor"], {**variables, "SPARK_JAVA_OPT_2": "-Dtwo"})
    backend = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    place = found.index(backend)
    assert found[0] == "/java/bin/java"
    assert found[1:3] == ["-Dtwo", "-Dten"]
    assert found[3:5] == ["-Xms1024m", "-Xmx1024m"]
    assert found[5:place] == ["-cp", "/opt/spark/conf:/spark/jars/*"]
    flags = dict(zip(found[place + 1 :: 2], found[place + 2 :: 2], strict=True))
    assert flags == {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.3",
        "--resourceProfileId": "0",
        "--podName": "job-exec-3",
    }


@pytest.mark.parametrize("name", sorted(set(EXECUTOR) - {"JAVA_HOME"}))
def test_an_executor_without_a_variable_says_which(name: str) -> None:
    """Started by hand, it would else wait for a driver that nobody named."""
    variables = {key: value for key, value in EXECUTOR.items() if key != name}
    with pytest.raises(ContainerError, match=name):
        command(["executor"], variables)


def test_a_driver_is_submitted_in_its_own_pod() -> None:
    """`spark-submit --deploy-mode cluster` starts the pod so."""
    variables = {"SPARK_HOME": "/spark", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.2"}
    found = command(["driver", "--properties-file", "/p", "local:///job.py"], variables)
    assert found[0] == "/spark/bin/spark-submit"
    assert "spark.driver.bindAddress=10.0.0.2" in found
    assert found[found.index("--deploy-mode") + 1] == "client"
    assert found[-3:] == ["--properties-file", "/p", "local:///job.py"]


def test_the_command_of_spark_s_launcher_is_taken_word_by_word() -> None:
    """Words may hold blanks and newlines; what was said before them is no part of the command."""
    assert launched(b"a warning\n\0\njava\0-Dx=a b\0-Dy=c\nd\0") == ["java", "-Dx=a b", "-Dy=c\nd"]


def test_a_launcher_that_printed_no_command_is_quoted() -> None:
    with pytest.raises(ContainerError, match="no such option"):
        launched(b"no such option\n")


def test_the_launcher_is_spark_s_own() -> None:
    """It alone knows which options its Java needs in this release."""
    found = launcher(["--conf", "a=b", "pyspark-shell"], {"SPARK_HOME": "/spark"})
    assert found[0] == "java"
    assert found[-4:] == ["org.apache.spark.deploy.SparkSubmit", "--conf", "a=b", "pyspark-shell"]


def test_the_image_has_the_jars_that_the_package_names() -> None:
    """Both lists are written by hand: a new release of Spark changes both, and the digests."""
    digests = re.findall(r"^ {6}([0-9a-f]{64}) (\S+\.jar) \\$", DOCKERFILE, re.MULTILINE)
    assert [name for _, name in digests] == jar_names()


def ended(*arguments: str, signalled: signal.Signals | None = None) -> tuple[int, str]:
    """How a program ended that the image's first process ran, and its first line."""
    line = [sys.executable, "-m", "barnabas_pipelines.container", *arguments]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        first = process.stdout.readline().decode()
        if signalled is not None:
            process.send_signal(signalled)
        return process.wait(10), first


def test_the_exit_code_is_the_program_s() -> None:
    """Kubernetes repeats a Job, or not, by it."""
    assert ended(sys.executable, "-c", "raise SystemExit(7)") == (7, "")


def test_a_program_that_is_not_there_is_named() -> None:
    code, told = ended("no-such-program")
    assert code == 127
    assert told == "no-such-program: No such file or directory\n"


def test_sigterm_reaches_the_program() -> None:
    """The kernel does not let it end process 1: a pod would hang for its whole grace period."""
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    assert ended(sys.executable, "-c", program, signalled=signal.SIGTERM) == (5, "ready\n")


def test_a_program_that_a_signal_ended_is_told_as_shells_do() -> None:
    killing = "import os; os.kill(os.getpid(), 9)"
    assert ended(sys.executable, "-c", killing) == (128 + 9, "")


def test_orphans_of_the_program_are_not_waited_for() -> None:
    """Python workers may outlive their JVM; the container ends with its program."""
    program = (
        "import os, signal\n"
        "if os.fork() == 0:\n"
        "    signal.alarm(20)\n"
        "    signal.pause()\n"
        "print('done', flush=True)\n"
    )
    assert ended(sys.executable, "-c", program) == (0, "done\n")
