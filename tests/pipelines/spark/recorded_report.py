"""A job's report that a test can read."""

import io

from rich.console import Console

from barnabas_pipelines.jobs.progress_bar import Report


class RecordedReport(Report):
    """What a job says, as lines."""

    def __init__(self, name: str) -> None:
        self._text = io.StringIO()
        super().__init__(name, Console(file=self._text, width=1000, highlight=False))

    @property
    def lines(self) -> list[str]:
        """Everything so far."""
        return self._text.getvalue().splitlines()
