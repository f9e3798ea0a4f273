"""docs/reference/jobs.md is what the rows of the jobs say."""

from pathlib import Path

from barnabas_pipelines.jobs import JOB_NAMES, reference
from barnabas_pipelines.jobs.job import load_job

PAGE = Path(__file__).parents[2] / reference.DEFAULT_PATH


def test_the_page_is_what_the_jobs_say() -> None:
    """Written by `python -m barnabas_pipelines.jobs.reference`."""
    assert PAGE.read_text(encoding="utf-8") == reference.render().rstrip("\n") + "\n"


def test_every_option_of_every_job_is_on_the_page() -> None:
    """Also those that share their row with other jobs."""
    sections = reference.render().split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == list(JOB_NAMES)
    for section, name in zip(sections, JOB_NAMES, strict=True):
        for option in load_job(name).options:
            assert f"| `{option.name}` |" in section


def test_the_page_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    """The generator takes a file."""
    reference.main([str(tmp_path / "jobs.md")])
    assert (tmp_path / "jobs.md").read_text(encoding="utf-8").startswith("# Options of the jobs\n")
