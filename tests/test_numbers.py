"""Numbers and names that several files repeat: each has one source, and the others follow it."""

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from barnabas_pipelines.jars import SPARK_VERSION
from releases.images import TARGETS, repository, version
from tests.e2e.support.images import SOURCES
from tests.support.apache_kafka import DEFAULT_VERSION
from tests.support.client_programs import INTEROP, JAVA_VERSIONS
from tests.support.source_suites import KAFKA_PYTHON_VERSIONS

ROOT = Path(__file__).resolve().parent.parent
# Reports and decisions tell what was so at their time.
HISTORY = (
    "CHANGELOG.md",
    "docs/decisions/",
    "docs/findings",
    "docs/operator-findings",
    "docs/trials",
)


def texts() -> dict[str, str]:
    """Pages, examples and what builds, by name."""
    patterns = ["*.md", "examples", "Dockerfile", "Makefile", "charts/*.yaml", "requirements/*.txt"]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in listed.splitlines()
        if not name.startswith(HISTORY) and (ROOT / name).is_file()
    }


TEXTS = texts()


def found(pattern: str) -> dict[str, set[str]]:
    """What the group of a pattern matches, and the files where it does."""
    values: dict[str, set[str]] = {}
    for name, text in TEXTS.items():
        for value in re.findall(pattern, text):
            values.setdefault(value, set()).add(name)
    return values


def test_wheels_and_images_are_named_by_this_version() -> None:
    """Who copies a command after a release gets the files of that release."""
    named = found(r"barnabas-(\d+\.\d+\.\d+)-py3-none-any\.whl")
    named |= found(r"localhost/barnabas-\w+:(\d+\.\d+\.\d+)")
    assert set(named) == {version()}, named


def test_images_of_the_end_to_end_tests_are_named_by_all_that_is_copied_into_them() -> None:
    """Where a folder is missing a change in it would be tried with the image of before."""
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", TEXTS["Dockerfile"], re.MULTILINE)
    names = {path.split("/")[0] for line in copied for path in line.split()}
    assert names - {"pipelines", "connector"} == set(SOURCES) - {"Dockerfile"}


def test_images_have_the_names_of_make_images() -> None:
    """The names before there was one scheme, and other ones, are nowhere."""
    named = found(r"(localhost/[\w/.-]+?)(?=:[\w$]|[`\"\s])")
    ours = {name for name in named if "barnabas" in name and "e2e" not in name}
    assert ours <= {repository(target) for target in TARGETS} | {"localhost/barnabas-TARGET"}, named


def test_spark_is_of_one_release_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"pyspark=={SPARK_VERSION}" in project["optional-dependencies"]["pipelines"]
    named = found(r"(?:pyspark==|PySpark is pinned to |spark-sql-kafka-0-10_2\.13-)(\d+\.\d+\.\d+)")
    named |= found(r"Spark (\d+\.\d+\.\d+)\b")
    assert set(named) == {SPARK_VERSION}, named
    short = found(r"\bSpark (\d+\.\d+)(?![\d.]*\d)")
    assert set(short) <= {SPARK_VERSION.rpartition(".")[0]}, short


def test_the_page_on_clients_has_the_versions_that_are_tried() -> None:
    """Of Java's client and of the Apache Kafka that stands beside Barnabas."""
    page = TEXTS["docs/compatibility.md"]
    assert f"| Java kafka-clients | {', '.join(JAVA_VERSIONS)} |" in page
    assert f"a real Apache Kafka {DEFAULT_VERSION}" in page
    pom = (ROOT / "examples" / "clients" / "java" / "pom.xml").read_text(encoding="utf-8")
    assert f"<version>{JAVA_VERSIONS[-1]}</version>" in pom


def pinned(requirements: str) -> dict[str, str]:
    """The versions of a requirements file of the interop tests."""
    path = INTEROP / "requirements" / f"{requirements}.txt"
    return dict(re.findall(r"^([\w-]+)==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_the_page_on_clients_has_the_versions_that_are_installed() -> None:
    page, modern = TEXTS["docs/compatibility.md"], pinned("modern")
    older = pinned("kafka_python_2")["kafka-python"]
    assert f"| confluent-kafka (librdkafka) | {modern['confluent-kafka']} |" in page
    assert f"| kafka-python | {modern['kafka-python']} and {older} |" in page
    assert f"| aiokafka | {modern['aiokafka']} |" in page
    package = json.loads((INTEROP / "clients" / "javascript" / "package.json").read_text())
    assert f"| kafkajs | {package['dependencies']['kafkajs']} |" in page
    assert (modern["kafka-python"], older) == KAFKA_PYTHON_VERSIONS


def test_the_page_on_clients_has_the_suites_that_run() -> None:
    """In the versions of the lists of what is left out, and as many parts as the test names."""
    page = TEXTS["docs/compatibility.md"]
    suites = set(re.findall(r"^\| (\S+ \d+\.[\d.]+), ", page, re.MULTILINE))
    lists = [path.read_text(encoding="utf-8") for path in (INTEROP / "left_out").glob("*.txt")]
    named = {found[1] for text in lists if (found := re.match(r"# (\S+ \d[\d.]+): ", text))}
    assert suites == named
    source = ast.parse((INTEROP / "test_librdkafka_suite.py").read_text(encoding="utf-8"))
    counts = {
        node.targets[0].id: sum(isinstance(one, ast.Constant) for one in ast.walk(node.value))
        for node in source.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("IN_FULL", "ADMIN_PARTS")
    }
    assert f"| all others, {counts['IN_FULL']} of them in full and the rest in quick mode |" in page
    assert f"| {counts['ADMIN_PARTS']} of its parts |" in page


def test_examples_use_the_clients_that_other_tests_use() -> None:
    """What is tried at length is what is shown."""
    examples = ROOT / "examples" / "clients"
    copier = INTEROP / "copiers" / "franz_go"
    for name, first in (("go.mod", 1), ("go.sum", 0)):  # go.mod begins with the module's name
        ours, tried = ((folder / name).read_text() for folder in (examples / "go", copier))
        assert ours.splitlines()[first:] == tried.splitlines()[first:]
    shown = json.loads((examples / "javascript" / "package.json").read_text())
    tried_by_tests = json.loads((INTEROP / "clients" / "javascript" / "package.json").read_text())
    assert shown["dependencies"] == tried_by_tests["dependencies"]


def test_the_pythons_that_serve_are_told_alike() -> None:
    """`make`, the pages and pip refuse the same ones."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found_range = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"])
    assert found_range is not None
    first, last = int(found_range[1]), int(found_range[2]) - 1
    assert set(found(r"\bPython (3\.\d+ to 3\.\d+)")) == {f"3.{first} to 3.{last}"}
    every = [f"3.{minor}" for minor in range(first, last + 1)]
    named = f"Barnabas needs Python {', '.join(every[:-1])} or {every[-1]};"
    assert named in TEXTS["Makefile"]
    assert f"(3, {first}) <= sys.version_info < (3, {last + 1})" in TEXTS["Makefile"]
    classifiers = {f"Programming Language :: Python :: {one}" for one in every}
    told = {one for one in project.get("classifiers", ()) if re.search(r":: 3\.\d+$", one)}
    assert told in (classifiers, set())


def test_the_page_on_kubernetes_has_the_version_that_the_chart_wants() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "barnabas" / "Chart.yaml").read_text())
    wanted = re.match(r">=(\d+\.\d+)\.", chart["kubeVersion"])
    assert wanted is not None
    assert f"You need Kubernetes {wanted[1]} or newer" in TEXTS["docs/kubernetes.md"]


def test_sizing_counts_with_the_figures_that_were_measured() -> None:
    """A formula outlives the figure that it was made with."""
    table = TEXTS["docs/figures.md"].partition("## Brokers")[2].partition("\n\nWhere a figure")[0]
    rows = re.findall(r"^\| \W*(.+?) \| .*? \| (.+?) \| .*\|$", table, re.MULTILINE)

    def measured(scenario: str, row: str = "broker CPU") -> str:
        behind = next(at for at, (name, _) in enumerate(rows) if name.startswith(scenario))
        return next(cell for name, cell in rows[behind:] if name.startswith(row)).split()[0]

    costs = {
        "produced, 1 KiB, `acks=all`, one replica": measured("produce 1 KiB"),
        "produced, 100 B": measured("produce 100 B"),
        "produced, three replicas, all three brokers together": measured("CPU of all", "CPU of"),
        "consumed, 1 KiB": measured("consume 1 KiB"),
    }
    sizing = TEXTS["docs/operations/sizing.md"]
    told = sizing.partition("seconds for a GiB |\n|---|---|\n")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| (.+?) \| (.+?) \|$", told, re.MULTILINE)) == costs
    *_, three, consumed = costs.values()
    assert re.search(rf"\(GiB/s produced . {three} \+ GiB/s consumed . {consumed}\)", sizing)
    latency = next(cell for name, cell in rows if name.startswith("5,000 requests/s"))
    assert f"Small batches cost more: {measured('5,000 requests/s')} µs for" in sizing
    assert f"were kept at a p99 of {latency.split(', ')[1]}." in sizing


def test_the_reading_path_tells_how_long_its_files_are() -> None:
    """A reader plans an evening by it."""
    readme = TEXTS["README.md"]
    told = re.findall(r"^\| `(\S+\.py)` \| (\d+) \|", readme, re.MULTILINE)
    lines = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path, _ in told}
    wrong = {path: lines[path] for path, count in told if abs(lines[path] - int(count)) > 30}
    assert not wrong
    assert f"These twelve files, some {round(sum(lines.values()), -3):,} lines" in readme
    assert len(told) == 12


@pytest.mark.parametrize("package", ["barnabas", "pyspark"])
def test_the_checks_see_something(package: str) -> None:
    """A pattern that matches nothing would agree with everything."""
    assert any(package in text for text in TEXTS.values())
    assert found(r"localhost/barnabas-\w+:(\d+\.\d+\.\d+)")
    assert found(r"\bSpark (\d+\.\d+)")
