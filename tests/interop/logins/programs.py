"""The clients that log in, each a program of its own, and what their users get to see."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from barnabas_client import Admin
from barnabas_client.errors import BarnabasError
from tests.interop.logins.cases import LoginCase, write_properties
from tests.interop.logins.wire import WireProgram
from tests.support.cache import python_environment
from tests.support.client_programs import (
    CLIENT_ENVIRONMENT,
    INTEROP,
    REPOSITORY,
    SLF4J,
    JavaClient,
)
from tests.support.java_tools import compile_java, java_command, maven_jars

_PROGRAM_SECONDS: Final = 400
_AT_ONCE: Final = 6
# Clients that log in by tokens bring it themselves.
_FOR_TOKENS: Final = (
    "com.fasterxml.jackson.core:jackson-databind:2.16.2",
    "org.bitbucket.b_c:jose4j:0.9.6",
)
_VARYING: Final = (
    (re.compile(r"(localhost|127\.0\.0\.1)([:/]|', | port=)\d+"), "BROKER"),
    (re.compile(r"Unable to bootstrap from .*>\)\]"), "Unable to bootstrap"),
    (re.compile(r"\(after \d+ms in state \w+"), "(after a while"),
    (re.compile(r"0x[0-9a-f]+|_ssl\.c:\d+|[0-9A-F]{16}"), "PLACE"),
    (re.compile(r"[0-9.]+ ?(ms|seconds|secs)\b"), "A WHILE"),
    (re.compile(r"(deadlineMs|timeoutMs|tries|nextAllowedTryMs|callName|fd)=[^,)]*"), r"\1"),
)


class LoginProgram(Protocol):
    """A client that tries all cases."""

    def outcomes(self, cases: Sequence[LoginCase], directory: Path) -> list[str]:
        """What its users see, for each case; not yet normalised."""
        ...


def normalised(outcome: str) -> str:
    """An outcome without what differs from run to run."""
    for pattern, stands_for in _VARYING:
        outcome = pattern.sub(stands_for, outcome)
    return outcome


class JavaProgram:
    """One version of Java's client."""

    def __init__(self, version: str) -> None:
        self._client = JavaClient(version)

    def outcomes(self, cases: Sequence[LoginCase], directory: Path) -> list[str]:
        jars = self._client.jars()
        source = INTEROP / "clients" / "java" / "LoginAttempts.java"
        classes = compile_java("login-attempts", [source], jars)
        files = [write_properties(case, directory, at) for at, case in enumerate(cases)]
        listed = directory / "cases.txt"
        listed.write_text("".join(f"{file}\n" for file in files))
        tokens = maven_jars("bearer-tokens", [*_FOR_TOKENS, SLF4J])
        command = java_command([classes, jars, tokens], "LoginAttempts", [str(listed)])
        urls = ",".join(sorted({Path(one.token_file).as_uri() for one in cases if one.token_file}))
        command.insert(1, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}")
        return _results(command, {}, len(cases))


class PythonProgram:
    """A Python client of others."""

    def __init__(self, name: str) -> None:
        self._name = name

    def outcomes(self, cases: Sequence[LoginCase], directory: Path) -> list[str]:
        python = python_environment("modern", INTEROP / "requirements" / "modern.txt")
        listed = directory / "cases.json"
        listed.write_text(json.dumps([case.plain() for case in cases]))
        module = ["-m", "tests.interop.clients.login_attempts"]
        command = [str(python), *module, self._name, str(listed)]
        return _results(command, CLIENT_ENVIRONMENT, len(cases))


class OwnProgram:
    """`barnabas_client`, in this process."""

    def outcomes(self, cases: Sequence[LoginCase], directory: Path) -> list[str]:
        async def run() -> list[str]:
            turns = asyncio.Semaphore(_AT_ONCE)
            return await asyncio.gather(*(_own_outcome(case, turns) for case in cases))

        return asyncio.run(run())


PROGRAMS: Final[dict[str, LoginProgram]] = {
    "java-3.9.1": JavaProgram("3.9.1"),
    "java-4.4.0": JavaProgram("4.4.0"),
    "librdkafka": PythonProgram("librdkafka"),
    "kafka-python": PythonProgram("kafka-python"),
    "aiokafka": PythonProgram("aiokafka"),
    "barnabas_client": OwnProgram(),
    "wire": WireProgram(),
}


async def _own_outcome(case: LoginCase, turns: asyncio.Semaphore) -> str:
    named = {
        "ssl_cafile": case.authority,
        "ssl_certfile": case.certificate,
        "ssl_keyfile": case.key,
        "sasl_mechanism": case.mechanism,
        "sasl_username": case.username,
        "sasl_password": case.password,
        "sasl_oauthbearer_token_file": case.token_file,
    }
    try:
        async with (
            turns,
            Admin(
                case.address,
                security_protocol=case.protocol,
                default_api_timeout_ms=1000 * case.seconds,
                socket_connection_setup_timeout_ms=1000 * case.seconds,
                **{name: value for name, value in named.items() if value},
            ) as admin,
        ):
            await admin.cluster.describe()
        return "in"
    except BarnabasError as error:
        return " ".join(f"{type(error).__name__}: {error}".split())


def _results(command: Sequence[str], environment: dict[str, str], count: int) -> list[str]:
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PROGRAM_SECONDS,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("result\t")]
    assert len(lines) == count, (done.stdout + done.stderr)[-4000:]
    return [line.removeprefix("result\t") for line in lines]
