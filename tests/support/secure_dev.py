"""What `barnabas dev --secure` gives, by Barnabas and by an Apache Kafka with the same files."""

from datetime import UTC, datetime
from pathlib import Path

from barnabas_cli.dev_security import SUPER_USER, DevSecurity
from tests.support.apache_kafka import ApacheKafka, kafka_jars
from tests.support.barnabas_process import barnabas_command
from tests.support.cache import run
from tests.support.processes import ManagedProcess, free_port, free_ports
from tests.support.waiting import wait_until

_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
READY_SECONDS = 60


class SecureDevKafka:
    """An Apache Kafka that serves clients as `barnabas dev --secure` does, in DIRECTORY/data."""

    def __init__(self, directory: Path) -> None:
        self.port, plain = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.security = DevSecurity(data=directory / "data", count=1, bootstrap=self.bootstrap)
        self.security.write_broker_files(datetime.now(UTC))
        self.security.write_client_files()
        settings = self.security.settings(0)
        self.node = ApacheKafka(directory / "node", plain, heap="512M", log_level="ERROR")
        clients = f"SASL_SSL://{self.bootstrap},PLAINTEXT://127.0.0.1:{plain}"
        self.node.properties |= {
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{self.node.controller_port}",
            "advertised.listeners": clients,
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"{settings['super.users']};User:ANONYMOUS",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{_MODULE} required;",
            **{
                key: settings[key]
                for key in ("ssl.keystore.type", "ssl.keystore.location", "sasl.enabled.mechanisms")
            },
        }

    def start(self) -> None:
        """Start it and store the super user's password, as the file of first users has it."""
        self.node.start()
        users = dict(
            line.split("=", 1) for line in (self.security.folder / "users").read_text().splitlines()
        )
        run(
            [
                *("java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*"),
                *("kafka.admin.ConfigCommand", "--bootstrap-server", self.node.bootstrap),
                *("--alter", "--entity-type", "users", "--entity-name", SUPER_USER),
                *("--add-config", f"SCRAM-SHA-512=[password={users[SUPER_USER]}]"),
            ]
        )

    def stop(self) -> None:
        """Stop the node."""
        if self.node.process is not None:
            self.node.stop()


class SecureDev:
    """`barnabas dev --secure` as a process, in DIRECTORY/data."""

    def __init__(self, directory: Path, count: int = 1) -> None:
        self.directory = directory
        self.count = count
        self.port = free_ports(count)
        self.admin_port = free_ports(count)
        self.process: ManagedProcess | None = None
        self.log_paths: list[Path] = []

    @property
    def bootstrap(self) -> str:
        """The address of the first broker."""
        return f"127.0.0.1:{self.port}"

    @property
    def folder(self) -> Path:
        """Where the files for clients are."""
        return self.directory / "data" / "secure"

    def start(self) -> None:
        """Start the process in its folder and wait until it serves."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [
            *(str(barnabas_command()), "dev", "--secure", "--brokers", str(self.count)),
            *("--port", str(self.port), "--admin-port", str(self.admin_port)),
            *("--data", str(self.directory / "data")),
        ]
        self.log_paths.append(self.directory / f"dev-{len(self.log_paths)}.log")
        self.process = process = ManagedProcess(command, self.log_paths[-1], {})
        wait_until(
            lambda: "Try next" in process.log_tail(1 << 20) or not process.is_running(),
            READY_SECONDS,
            lambda: process.log_tail(),
        )
        assert process.is_running(), process.log_tail()

    def stop(self) -> int:
        """Stop it in order; the exit code."""
        assert self.process is not None
        return self.process.stop()
