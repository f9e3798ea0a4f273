"""What the arguments of the image mean: the program that is to run.

| arguments | started by | runs |
|---|---|---|
| `driver ...` | a submit in cluster mode | Spark's submit with them, in this pod |
| `executor` | a driver that requests executors | one executor, configured by variables |
| `NAME ...`, of a job | people, the chart | `python -m barnabas_pipelines.jobs.NAME ...` |
| anything else | people | just that |

Pure: arguments and variables in, a command out. The variables and flags are those of Spark's
Kubernetes backend (`BasicExecutorFeatureStep`, `KubernetesExecutorBackend`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas_pipelines.jobs import JOB_NAMES

_EXECUTOR_CLASS: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_SUBMIT_CLASS: Final = "org.apache.spark.deploy.SparkSubmit"
_LAUNCHER_CLASS: Final = "org.apache.spark.launcher.Main"
_JAVA_OPTION: Final = "SPARK_JAVA_OPT_"
_EXECUTOR_FLAGS: Final = (
    ("--driver-url", "SPARK_DRIVER_URL"),
    ("--executor-id", "SPARK_EXECUTOR_ID"),
    ("--cores", "SPARK_EXECUTOR_CORES"),
    ("--app-id", "SPARK_APPLICATION_ID"),
    ("--hostname", "SPARK_EXECUTOR_POD_IP"),
    ("--resourceProfileId", "SPARK_RESOURCE_PROFILE_ID"),
    ("--podName", "SPARK_EXECUTOR_POD_NAME"),
)


class ContainerError(Exception):
    """The image was started in a way that it cannot serve; the text says what is missing."""


def command(arguments: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """The program and its arguments. Raises: ContainerError."""
    jobs = {name.replace("_", "-"): name for name in JOB_NAMES}
    match list(arguments):
        case []:
            raise ContainerError(
                "what is to run? The name of a job and its options: " + ", ".join(sorted(jobs))
            )
        case ["driver", *rest]:
            return _driver(rest, variables)
        case ["executor", *_]:
            return _executor(variables)
        case [name, *rest] if name in jobs:
            return [sys.executable, "-m", f"barnabas_pipelines.jobs.{jobs[name]}", *rest]
        case given:
            return given


def _driver(rest: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Spark's submit, which starts the driver's own program beside its JVM."""
    address = _needed(variables, "SPARK_DRIVER_BIND_ADDRESS")
    return [
        f"{_needed(variables, 'SPARK_HOME')}/bin/spark-submit",
        "--conf",
        f"spark.driver.bindAddress={address}",
        "--conf",
        f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}",
        "--deploy-mode",
        "client",
        *rest,
    ]


def _executor(variables: Mapping[str, str]) -> list[str]:
    """Java with the executor's class, and what the driver wants it to know."""
    memory = _needed(variables, "SPARK_EXECUTOR_MEMORY")
    flags = [part for flag, name in _EXECUTOR_FLAGS for part in (flag, _needed(variables, name))]
    return [
        java(variables),
        *_java_options(variables),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        _class_path(variables),
        _EXECUTOR_CLASS,
        *flags,
    ]


def _java_options(variables: Mapping[str, str]) -> list[str]:
    """The driver's options for an executor's JVM, numbered in their order."""
    numbered = {
        int(name.removeprefix(_JAVA_OPTION)): value
        for name, value in variables.items()
        if name.startswith(_JAVA_OPTION) and name.removeprefix(_JAVA_OPTION).isdigit()
    }
    return [numbered[number] for number in sorted(numbered)]


def _class_path(variables: Mapping[str, str]) -> str:
    """Settings first, then what the user added, then Spark."""
    places = [
        variables.get("SPARK_CONF_DIR", ""),
        variables.get("SPARK_CLASSPATH", ""),
        f"{_needed(variables, 'SPARK_HOME')}/jars/*",
    ]
    return ":".join(place for place in places if place)


def launcher(arguments: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """The program that prints the command line of Spark's submit with these arguments."""
    return [
        java(variables),
        "-Xmx128m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{_needed(variables, 'SPARK_HOME')}/jars/*",
        _LAUNCHER_CLASS,
        _SUBMIT_CLASS,
        *arguments,
    ]


def launched(output: bytes) -> list[str]:
    """The command line that `launcher` has printed: messages, NUL, newline, words ended by NULs.

    Raises: ContainerError if there is none, with what was printed instead.
    """
    messages, mark, words = output.partition(b"\0\n")
    if not mark:
        raise ContainerError(messages.decode(errors="replace").strip() or "Spark said nothing")
    return [word.decode() for word in words.rstrip(b"\0").split(b"\0")]


def java(variables: Mapping[str, str]) -> str:
    """Where Java is."""
    home = variables.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _needed(variables: Mapping[str, str], name: str) -> str:
    value = variables.get(name)
    if not value:
        raise ContainerError(f"the variable {name} is not set; Spark sets it for pods of its own")
    return value
