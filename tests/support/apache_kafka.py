"""A real Apache Kafka broker: the oracle of the interop tests and the rival of the benchmarks.

One node in KRaft combined mode, jars from Maven in the cache, data in a folder of the caller. The
JVM options are those of Kafka's own start script (1 GiB heap, G1), so that measurements compare
with what a user gets.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.cache import run
from tests.support.java_tools import maven_jars
from tests.support.processes import ManagedProcess, free_port

DEFAULT_VERSION = "4.1.1"
_LOG4J_VERSION = "2.24.3"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_LOG4J = """rootLogger.level={level}
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
"""


def kafka_jars(version: str = DEFAULT_VERSION) -> Path:
    """The folder with the broker and the tools of that version."""
    coordinates = [
        f"org.apache.kafka:kafka_2.13:{version}",
        f"org.apache.kafka:kafka-tools:{version}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J_VERSION}",
        f"org.apache.logging.log4j:log4j-core:{_LOG4J_VERSION}",
    ]
    return maven_jars(f"kafka-{version}", coordinates)


def write_log4j(directory: Path, level: str) -> Path:
    """A log configuration for the JVM programs of Kafka: one level, to standard error."""
    path = directory / f"log4j2-{level}.properties"
    path.write_text(_LOG4J.format(level=level))
    return path


class ApacheKafka:
    """One Apache Kafka node; `directory` keeps data, configuration and output."""

    name = "apache"

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        version: str = DEFAULT_VERSION,
        properties: Mapping[str, str] | None = None,
        heap: str = "1G",
        jvm_options: Sequence[str] = _JVM_OPTIONS,
        log_level: str = "WARN",
        more_classes: Sequence[Path] = (),
    ) -> None:
        """`more_classes` are folders with classes of plug-ins."""
        self.version = version
        self.directory = directory
        self.port = port or free_port()
        self.controller_port = free_port()
        self.data_directory = directory / "data"
        self.heap = heap
        self.jvm_options = jvm_options
        self.log_level = log_level
        self.more_classes = tuple(more_classes)
        self.process: ManagedProcess | None = None
        self.properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data_directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(properties or {}),
        }

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def cpu_seconds(self) -> float:
        """User and system time of the running process so far."""
        assert self.process is not None
        return self.process.cpu_seconds()

    def start(self, timeout_seconds: float = 180) -> float:
        """Formats the data folder on the first start; returns the seconds until it accepts."""
        jars = kafka_jars(self.version)
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        class_path = os.pathsep.join([f"{jars}/*", *map(str, self.more_classes)])
        if not (self.data_directory / "meta.properties").exists():
            storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
            run(["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, *storage])
        log4j = write_log4j(self.directory, self.log_level)
        command = [
            "java",
            f"-Xmx{self.heap}",
            f"-Xms{self.heap}",
            *self.jvm_options,
            f"-Dlog4j2.configurationFile={log4j}",
            "-cp",
            class_path,
            "kafka.Kafka",
            str(config),
        ]
        self.process = ManagedProcess(command, self.directory / "broker.log", {})
        return self.process.wait_for_port(self.port, timeout_seconds)

    def stop(self, timeout_seconds: float = 60) -> int:
        """A clean shutdown; the exit code (143 is Java's word for an orderly SIGTERM)."""
        assert self.process is not None
        return self.process.stop(timeout_seconds)

    def kill(self) -> None:
        """Ends it with SIGKILL: no cleanup of any kind."""
        assert self.process is not None
        self.process.kill()

    def __enter__(self) -> "ApacheKafka":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.is_running():
            self.stop()
