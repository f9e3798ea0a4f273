"""Settings of a job as its command line makes them."""

from collections.abc import Callable, Sequence

from barnabas_pipelines.jobs.settings import JobOption, JobSettings, merged_settings
from barnabas_pipelines.jobs.usage import CommandLine


def read_settings(
    options: Sequence[JobOption], arguments: Sequence[str], read_text: Callable[[str], str]
) -> JobSettings:
    """Settings of these arguments; `read_text` gives the content of a file."""
    given = CommandLine("example", "", options).parse(arguments)
    return merged_settings(options, given, read_text)
