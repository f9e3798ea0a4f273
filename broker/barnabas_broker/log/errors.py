"""Failures of a log that are not answers to a client.

Not here: `KafkaError`, which travels on the wire. Source: behaviour LOG-11.
"""


class LogDirectoryError(Exception):
    """The disk under a log directory failed: everything in the directory must go offline.

    `path` is the file or directory that was touched, `cause` what the system said.
    """

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(f"{path}: {cause}")
        self.path = path
        self.cause = cause


class CorruptionError(Exception):
    """The bytes of a log cannot be what was written.

    `position` is the place in the file `path`, `reason` what is wrong there.
    """

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at position {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason
