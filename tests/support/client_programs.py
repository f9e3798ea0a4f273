"""Every client of the interop tests behind one interface: run a plan, get the answers.

The language of the plans is described in `tests/interop/clients/steps.py`. Python clients live in
environments of the cache, Java ones are one source compiled per version, kafkajs is installed by
its lock file, kcat is driven from here.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.clients.steps import Item, read_items, write_items
from tests.support.cache import cached, digest, python_environment, require_commands, run
from tests.support.java_tools import compile_java, java_command, maven_jars

REPOSITORY = Path(__file__).resolve().parents[2]
INTEROP = REPOSITORY / "tests" / "interop"
# Python clients run as modules of this repository with foreign interpreters.
CLIENT_ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
JAVA_VERSIONS = ("3.4.1", "3.9.1", "4.1.1")
# slf4j without a provider would print warnings; the clients' own logs are not wanted.
SLF4J = "org.slf4j:slf4j-nop:1.7.36"

Plan = Sequence[Sequence[str]]


class ClientError(Exception):
    """The client program failed; holds its output."""


class ClientProgram:
    """A client that runs plans in a process of its own."""

    codecs: tuple[str, ...] = ALL_CODECS
    has_null_header_values = True
    has_timestamps = True
    has_admin = True

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self) -> None:
        """Download and build what it needs, if that is not done yet."""
        self.command()
        self.environment()

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def run(self, bootstrap: str, plan: Plan, directory: Path) -> list[str]:
        """Runs the steps; returns one answer per step."""
        path = directory / f"plan-{len(list(directory.iterdir()))}.txt"
        path.write_text("".join("\t".join(step) + "\n" for step in plan))
        result = subprocess.run(
            [*self.command(), bootstrap, str(path)],
            cwd=REPOSITORY,
            env={**os.environ, **self.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        lines = [line for line in result.stdout.splitlines() if line.startswith("result\t")]
        answers = [line.split("\t", 1)[1] for line in lines]
        if result.returncode != 0 or len(answers) != len(plan):
            failed = plan[len(answers)] if len(answers) < len(plan) else "the end"
            output = (result.stdout + result.stderr)[-5000:]
            raise ClientError(f"{self.name} failed at {failed}:\n{output}")
        return answers


class PythonClient(ClientProgram):
    """A client from a Python package, in the environment of a requirements file."""

    def __init__(self, name: str, module: str, requirements: str) -> None:
        super().__init__(name)
        self.module = module
        self.requirements = requirements
        # kafka-python refuses to send a header without a value.
        self.has_null_header_values = module != "kafka_python_client"

    def command(self) -> list[str]:
        file = INTEROP / "requirements" / f"{self.requirements}.txt"
        python = python_environment(self.requirements, file)
        return [str(python), "-m", f"tests.interop.clients.{self.module}"]

    def environment(self) -> dict[str, str]:
        return CLIENT_ENVIRONMENT


class JavaClient(ClientProgram):
    """One version of org.apache.kafka:kafka-clients."""

    def __init__(self, version: str) -> None:
        super().__init__(f"java-{version}")
        self.version = version

    def jars(self) -> Path:
        """The folder of the client and what it depends on."""
        return maven_jars(
            f"kafka-clients-{self.version}",
            [f"org.apache.kafka:kafka-clients:{self.version}", SLF4J],
        )

    def command(self) -> list[str]:
        jars = self.jars()
        source = INTEROP / "clients" / "java" / "ClientSteps.java"
        classes = compile_java("client-steps", [source], jars)
        return java_command([classes, jars], "ClientSteps", [])


class KafkajsClient(ClientProgram):
    """The kafkajs package on Node.js; codecs beside gzip need other packages there."""

    codecs = ("none", "gzip")
    has_null_header_values = False

    def __init__(self) -> None:
        super().__init__("kafkajs")

    def command(self) -> list[str]:
        return ["node", str(INTEROP / "clients" / "javascript" / "kafkajs_client.js")]

    def environment(self) -> dict[str, str]:
        require_commands({"node": "nodejs", "npm": "npm"})
        source = INTEROP / "clients" / "javascript"
        lock = (source / "package-lock.json").read_text()

        def build(directory: Path) -> None:
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(source / name, directory / name)
            run(["npm", "ci", "--no-audit", "--no-fund"], directory=directory)

        home = cached(f"kafkajs-{digest(lock)}", build)
        return {"KAFKAJS_HOME": str(home), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}


class KcatClient(ClientProgram):
    """kcat from Debian: librdkafka 2.0.2, an old client that many still use.

    It takes headers and partition per run and no timestamps, so records are written in groups.
    """

    has_null_header_values = False
    has_timestamps = False
    has_admin = False

    def __init__(self) -> None:
        super().__init__("kcat")

    def prepare(self) -> None:
        require_commands({"kcat": "kcat"})

    def run(self, bootstrap: str, plan: Plan, directory: Path) -> list[str]:
        self.prepare()
        return [getattr(self, f"_{step[0]}")(bootstrap, *step[1:]) for step in plan]

    def _kcat(self, bootstrap: str, *arguments: str, data: bytes = b"") -> bytes:
        result = subprocess.run(
            ["kcat", "-b", bootstrap, *arguments],
            input=data,
            capture_output=True,
            timeout=120,
            check=False,
        )
        if result.returncode != 0:
            raise ClientError(f"kcat {arguments}: {result.stderr.decode(errors='replace')[-2000:]}")
        return result.stdout

    def _produce(
        self, bootstrap: str, topic: str, codec: str, is_idempotent: str, path: str
    ) -> str:
        items = read_items(path)
        options = ["-P", "-t", topic, "-z", codec, "-Z", "-K", "\x01"]
        if is_idempotent == "1":
            options += ["-X", "enable.idempotence=true"]
        groups: dict[tuple[int, tuple[tuple[str, bytes | None], ...]], list[Item]] = {}
        for item in items:
            groups.setdefault((item.partition, item.headers), []).append(item)
        for (partition, headers), group in groups.items():
            named = [f"{name}={(value or b'').decode()}" for name, value in headers]
            flags = [flag for pair in named for flag in ("-H", pair)]
            lines = [(i.key or b"") + b"\x01" + (i.value or b"") + b"\n" for i in group]
            where = ["-p", str(partition)]
            self._kcat(bootstrap, *options, *where, *flags, data=b"".join(lines))
        return str(len(items))

    def _read(self, bootstrap: str, topic: str, count: str, path: str) -> str:
        form = ["-f", "%p %o %T %K %S\n%k%s%h\n"]
        output = self._kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", *form)
        items = _parse_kcat(output)
        if len(items) != int(count):
            raise ClientError(f"kcat read {len(items)} of {count} from {topic}")
        write_items(path, items)
        return count

    def _offsets(self, bootstrap: str, topic: str) -> str:
        numbers = self._partitions(bootstrap, topic)
        pairs = []
        for number in numbers:
            low, high = (
                self._kcat(bootstrap, "-Q", "-t", f"{topic}:{number}:{which}").decode()
                for which in ("-2", "-1")
            )
            pairs.append(f"{number}:{low.split()[-1]}:{high.split()[-1]}")
        return ",".join(pairs)

    def _topics(self, bootstrap: str) -> str:
        lines = self._kcat(bootstrap, "-L").decode().splitlines()
        return ",".join(
            sorted(line.split('"')[1] for line in lines if line.startswith('  topic "'))
        )

    def _partitions(self, bootstrap: str, topic: str) -> list[int]:
        lines = self._kcat(bootstrap, "-L", "-t", topic).decode().splitlines()
        found = [line.split() for line in lines if line.startswith("    partition ")]
        return sorted(int(words[1].rstrip(",")) for words in found)

    def _consume(self, bootstrap: str, topic: str, group: str, count: str, path: str) -> str:
        form = ["-f", "%p %o %T %K %S\n%k%s%h\n"]
        settings = ["-X", "auto.offset.reset=earliest", "-c", count, "-q"]
        output = self._kcat(bootstrap, *settings, *form, "-G", group, topic)
        items = _parse_kcat(output)
        if len(items) != int(count):
            raise ClientError(f"kcat read {len(items)} of {count} from {topic}")
        write_items(path, items)
        return count


def _parse_kcat(output: bytes) -> list[Item]:
    """Reads `partition offset timestamp key-size value-size`, then key, value and headers."""
    items = []
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        numbers = [int(word) for word in output[position:end].split()]
        partition, offset, timestamp, key_size, value_size = numbers
        position = end + 1
        parts: list[bytes | None] = []
        for size in (key_size, value_size):
            parts.append(None if size < 0 else output[position : position + size])
            position += max(size, 0)
        end = output.index(b"\n", position)
        pairs = [pair.split("=", 1) for pair in output[position:end].decode().split(",") if pair]
        headers = tuple((n, None if text == "NULL" else text.encode()) for n, text in pairs)
        items.append(Item(partition, offset, timestamp, parts[0], parts[1], headers))
        position = end + 1
    return items


def all_clients() -> list[ClientProgram]:
    """Every client that the tests know."""
    return [
        PythonClient("confluent-kafka", "confluent_client", "modern"),
        PythonClient("kafka-python-3", "kafka_python_client", "modern"),
        PythonClient("kafka-python-2", "kafka_python_client", "kafka_python_2"),
        PythonClient("aiokafka", "aiokafka_client", "modern"),
        KafkajsClient(),
        KcatClient(),
        *(JavaClient(version) for version in JAVA_VERSIONS),
    ]
