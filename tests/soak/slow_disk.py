"""Makes the disk of a running process slow: its disk writes and syncs take longer.

`strace` attaches to the process and delays these system calls, in all of its threads; nothing of
the process is changed. Needs root and Debian's package `strace`.
"""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cache import require_commands
from tests.support.waiting import wait_until

_SYNCS = "fsync,fdatasync,sync_file_range"
_WRITES = "pwrite64,pwritev,pwritev2"
END_SECONDS = 20


@contextmanager
def slow_disk(pid: int, *, sync_ms: int, write_ms: int) -> Iterator[None]:
    """Each sync takes that much longer, each write to a file that much, until the block ends."""
    require_commands({"strace": "strace"})
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={_SYNCS},{_WRITES}"]
    command += ["-e", f"inject={_SYNCS}:delay_enter={sync_ms}ms"]
    command += ["-e", f"inject={_WRITES}:delay_enter={write_ms}ms", "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        try:
            wait_until(lambda: _is_traced(pid), END_SECONDS, lambda: "strace does not attach")
            yield
        finally:
            is_over = tracer.poll() is not None
            if not is_over:
                tracer.send_signal(signal.SIGINT)
            _, told = tracer.communicate(timeout=END_SECONDS)
            # A process that ends meanwhile ends its tracer, which is no failure.
            if is_over and tracer.returncode not in (0, -signal.SIGINT):
                raise RuntimeError(f"strace ended with {tracer.returncode}: {told}")


def _is_traced(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return "TracerPid:\t0" not in lines
