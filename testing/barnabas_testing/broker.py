"""A broker, or a cluster of several, for a test: started on free ports, in a folder of its own.

It is what `barnabas dev` runs, in processes of its own, so that a test may kill it. Invariants: it
is gone when the `with` block ends, and when the program that started it does, however that happens;
its folder is deleted unless it was given.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

READY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0
_LINES_KEPT: Final = 200
_READY: Final = re.compile(
    r"^(?:Barnabas is ready on 127\.0\.0\.1:(\d+)|\d+ brokers of Barnabas are ready .*?ports (\d+))"
)


class BrokerError(Exception):
    """A broker did not start; the message has the last that it printed."""


class Broker:
    """A broker of a test.

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    A secure one lets in who has its settings for clients, which are a super user's. They are there
    for a plain one as well, so that a test need not know which it has.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        data: str | os.PathLike[str] | None = None,
        secure: bool = False,
    ) -> None:
        """Make one that is not started yet; `settings` are broker properties by Kafka's names.

        A secure one takes clients by TLS and SCRAM-SHA-512 only, and asks them for rights.
        """
        self.broker_count = brokers
        self.is_secure = secure
        self.settings = dict(settings or {})
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._given = None if data is None else Path(data)
        self._process: subprocess.Popen[str] | None = None
        self._port = 0  # once it was started, it comes back at the same
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES_KEPT)
        self._reader: threading.Thread | None = None
        self._has_served = False  # since it was started last

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it."""
        if not self._port:
            raise BrokerError("the broker was not started")
        return ",".join(f"127.0.0.1:{self._port + number}" for number in range(self.broker_count))

    @property
    def data(self) -> Path:
        """The folder of its data."""
        if self._given is not None:
            return self._given
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="barnabas-")
        return Path(self._folder.name)

    @property
    def client_properties(self) -> dict[str, str]:
        """What Java's clients, Spark's connector and Kafka's tools are configured with."""
        if not self.is_secure:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self._client_file("client.properties")

    @property
    def librdkafka_settings(self) -> dict[str, str]:
        """What confluent-kafka and all others that are built on librdkafka are configured with."""
        if not self.is_secure:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self._client_file("librdkafka.conf")

    @property
    def client_settings(self) -> dict[str, Any]:
        """Keyword arguments of Barnabas' own clients: `Producer(**broker.client_settings)`."""
        from barnabas_client.config.properties_file import client_settings_in

        return client_settings_in(self.client_properties)

    @property
    def kafka_python_settings(self) -> dict[str, Any]:
        """Keyword arguments of the clients of aiokafka and of kafka-python."""
        settings = self.librdkafka_settings
        found: dict[str, Any] = {"bootstrap_servers": settings["bootstrap.servers"].split(",")}
        if self.is_secure:
            found |= {
                "security_protocol": settings["security.protocol"].upper(),
                "sasl_mechanism": settings["sasl.mechanisms"],
                "sasl_plain_username": settings["sasl.username"],
                "sasl_plain_password": settings["sasl.password"],
                "ssl_context": ssl.create_default_context(cafile=settings["ssl.ca.location"]),
            }
        return found

    @property
    def log(self) -> str:
        """The last lines that it printed."""
        return "".join(self._lines)

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int | None:
        """Its process, for tests that send it signals; None where it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> Self:
        """Start it, or start it again on the same data at the same ports; returns when it serves.

        Raises: BrokerError.
        """
        if self.is_running:
            return self
        self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for the test, which stops it then
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self._process.stdout is not None
        self._has_served = False
        ready = threading.Event()
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout, ready), daemon=True
        )
        self._reader.start()
        if not ready.wait(READY_SECONDS) or not self._has_served:
            self.kill()
            raise BrokerError(f"the broker did not start:\n{self.log}")
        return self

    def stop(self) -> None:
        """Stop it as Ctrl-C does; its data stays."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, as a crash does; its data stays. All brokers of a cluster at once."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it and start it on the same data, at the same ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it, and delete the folder unless it was given."""
        self.stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _command(self) -> list[str]:
        settings = [f"--set={key}={value}" for key, value in self.settings.items()]
        return [
            sys.executable,
            "-m",
            "barnabas_cli.main",
            "dev",
            f"--brokers={self.broker_count}",
            f"--port={self._port}",
            "--admin-port=-1",
            "--no-console",
            f"--data={self.data}",
            "--stop-on-eof",
            *(["--secure"] if self.is_secure else []),
            *settings,
        ]

    def _client_file(self, name: str) -> dict[str, str]:
        """A file that a secure broker has written for its clients."""
        from barnabas_client.config.properties_file import read_properties_file

        if not self._port:
            raise BrokerError("the broker was not started")
        return read_properties_file(self.data / "secure" / name)

    def _read(self, printed: IO[str], ready: threading.Event) -> None:
        """Take what it prints, so that it never waits for a reader."""
        for line in printed:
            self._lines.append(line)
            match = _READY.match(line)
            if match is not None:
                self._port = int(match[1] or match[2])
                self._has_served = True
                ready.set()
        ready.set()

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        target = process.pid
        with contextlib.suppress(ProcessLookupError):
            # The brokers of a cluster have sessions of their own, and end with their parent's word.
            if number is signal.SIGKILL:
                for child in _children(target):
                    os.kill(child, number)
            os.kill(target, number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(target, signal.SIGKILL)
            process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        if self._reader is not None:
            self._reader.join(_STOP_SECONDS)
        process.stdout.close()


def _children(pid: int) -> list[int]:
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in listed.split()]
