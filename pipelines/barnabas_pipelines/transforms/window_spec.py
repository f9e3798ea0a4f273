"""Length, slide and watermark of windows, in milliseconds; checked without Spark.

Windows begin at multiples of the slide since 1970 in UTC, whatever the session's time zone is.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas_pipelines.errors import OptionsError


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """Windows of `length_ms`, one every `slide_ms`; tumbling where the two are the same.

    `watermark_ms` is how much older than the newest event time a record may be to be counted.
    Raises: OptionsError for windows that would leave records out, or count them without end.
    """

    length_ms: int
    slide_ms: int
    watermark_ms: int

    def __post_init__(self) -> None:
        if self.length_ms <= 0:
            raise OptionsError("the window must be longer than 0, for example 1 minute")
        if not 0 < self.slide_ms <= self.length_ms:
            raise OptionsError(
                f"windows of {self.length_ms} ms, one every {self.slide_ms} ms: the slide must be "
                "more than 0, and no longer than the window, or records would lie in none"
            )
        if self.watermark_ms < 0:
            raise OptionsError("the watermark must be 0 or more")

    @property
    def windows_per_record(self) -> int:
        """In how many windows a record is counted, at most."""
        return -(-self.length_ms // self.slide_ms)
