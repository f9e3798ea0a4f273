"""What docs/pipelines.md shows can be pasted: commands, files, values, pictures, links."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs import JOB_NAMES
from barnabas_pipelines.jobs.job import load_job
from barnabas_pipelines.jobs.settings import settings_of
from tests.pipelines.command_line import read_settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pipelines.md"
TEXT = PAGE.read_text()


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


FILES = {
    "quality.yaml": next(text for text in fences("yaml") if "required:" in text),
    "avro-quality.yaml": next(text for text in fences("yaml") if "avro-quality" in text),
}
COMMANDS = [
    shlex.split(line)
    for block in fences("sh")
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("python -m barnabas_pipelines.jobs.")
]
JOBS = yaml.safe_load(next(text for text in fences("yaml") if text.startswith("pipelines:")))


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if not command[2].endswith("NAME")],
    ids=lambda command: str(command[2]).rpartition(".")[2],
)
def test_commands_are_understood(command: list[str]) -> None:
    """A new user pastes them first, and reads afterwards."""
    job = load_job(command[2].rpartition(".")[2])
    settings = read_settings(job.options, command[3:], FILES.__getitem__)
    job.check(settings)


def test_every_job_is_shown_with_a_picture() -> None:
    shown = {command[2].rpartition(".")[2] for command in COMMANDS}
    assert shown == {*JOB_NAMES, "NAME"}
    for name in JOB_NAMES:
        assert f"(images/pipelines-{name.replace('_', '-')}.svg)" in TEXT


def test_values_of_the_page_are_values_of_the_chart_and_of_the_jobs() -> None:
    schema = json.loads((ROOT / "charts" / "barnabas" / "values.schema.json").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(JOBS)] == []
    for one in JOBS["pipelines"]["jobs"]:
        job = load_job(one["job"].replace("-", "_"))
        # What the chart adds to the options of every job.
        added: dict[str, Any] = {"bootstrap-servers": "b:9092", "master": "local[2]", "conf": {}}
        job.check(settings_of(job.options, {**added, **one["options"]}))


def test_pictures_and_pages_exist_and_ask_nobody_else() -> None:
    """A picture that fetches fonts is not whole, and tells a stranger who reads it."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXT):
        assert (PAGE.parent / target).exists(), target
    for name in re.findall(r"\(images/(pipelines-[\w-]+\.svg)\)", TEXT):
        picture = (PAGE.parent / "images" / name).read_text()
        assert "url(http" not in picture.replace('"', "").replace("'", ""), name


def test_headings_of_the_contents_exist() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in TEXT.splitlines()
        if line.startswith("#")
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= headings


def test_a_misspelt_option_would_be_noticed() -> None:
    """The check above is worth nothing if everything passes."""
    job = load_job("quality")
    with pytest.raises(OptionsError, match="Did you mean"):
        read_settings(job.options, ["--dead-leter-topic", "x"], FILES.__getitem__)
