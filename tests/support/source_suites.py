"""Test programs of other projects, as source from the package registries, built in the cache.

librdkafka's C tests come inside the npm package of its JavaScript binding; kafka-python's
integration tests inside its source distributions; franz-go's with its Go module. Versions and
digests are pinned here.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tests.support.cache import cached, require_commands, require_headers, run
from tests.support.go_tools import go_test_program

_LIBRDKAFKA_PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
_LIBRDKAFKA_SHA256 = "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66"
_KAFKA_PYTHON_SHA256 = {
    "3.0.12": "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65",
    "2.3.3": "c566a326161595d18e6a65069fb5cee8e389528529932b224ce57641ce49de1d",
}
_FRANZ_GO_MODULE = "github.com/twmb/franz-go@v1.22.2"
_FRANZ_GO_CHECKSUM = "h1:EdwIHGzD/4mgCpl/sNS0C74JYn6cL/r2KYS+8UC96Ww="
_FRANZ_GO_VERSION_OF_GO = "1.26.0"
KAFKA_PYTHON_VERSIONS = tuple(_KAFKA_PYTHON_SHA256)
_EXTERNAL_SERVICE = """class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
"""


def _check_digest(path: Path, expected: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise RuntimeError(f"{path.name}: the digest is {found}, expected {expected}")


def librdkafka_tests() -> Path:
    """The folder of librdkafka's built tests, with `test-runner` in it."""

    def build(directory: Path) -> None:
        require_commands({"npm": "npm", "gcc": "build-essential", "g++": "build-essential"})
        require_commands({"make": "build-essential", "python3": "python3"})
        require_headers(
            {
                "openssl/ssl.h": "libssl-dev",
                "zlib.h": "zlib1g-dev",
                "zstd.h": "libzstd-dev",
                "curl/curl.h": "libcurl4-openssl-dev",
                "rapidjson/document.h": "rapidjson-dev",
            }
        )
        run(["npm", "pack", "--silent", _LIBRDKAFKA_PACKAGE], directory=directory)
        (archive,) = directory.glob("*.tgz")
        _check_digest(archive, _LIBRDKAFKA_SHA256)
        run(["tar", "xzf", archive.name, "package/deps/librdkafka"], directory=directory)
        archive.unlink()
        source = directory / "package" / "deps" / "librdkafka"
        run(["./configure", "--disable-gssapi"], directory=source)
        jobs = f"-j{os.cpu_count() or 2}"
        run(["make", jobs, "libs"], directory=source)
        run(["make", jobs, "-C", "tests", "build"], directory=source)

    key = _LIBRDKAFKA_SHA256[:12] + "-2"
    built = cached(f"librdkafka-{key}", build, is_relocatable=False)
    return built / "package" / "deps" / "librdkafka" / "tests"


def kafka_python_source(version: str) -> Path:
    """The unpacked source distribution of kafka-python, tests included."""
    expected = _KAFKA_PYTHON_SHA256[version]

    def build(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        source = ["--no-binary", ":all:", "--no-deps", "-d", directory]
        run([*pip, *source, f"kafka-python=={version}"])
        (archive,) = directory.glob("*.tar.gz")
        _check_digest(archive, expected)
        run(["tar", "xzf", archive.name, "--strip-components=1"], directory=directory)
        archive.unlink()
        # The package under test is the installed one; the sources give only the tests.
        shutil.rmtree(directory / "kafka", ignore_errors=True)
        # The 3.x distribution leaves out two files that its fixtures import.
        (directory / "test" / "__init__.py").touch()
        service = directory / "test" / "service.py"
        if not service.exists():
            service.write_text(_EXTERNAL_SERVICE)

    return cached(f"kafka-python-source-{version}-{expected[:8]}-2", build)


def franz_go_tests() -> Path:
    """The program of franz-go's tests of its client."""
    return go_test_program(_FRANZ_GO_MODULE, _FRANZ_GO_CHECKSUM, _FRANZ_GO_VERSION_OF_GO, "pkg/kgo")
