"""What a broker without TLS, log-in and audit does not load: it starts fast and stays small."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
from tests.support.in_process_broker import running_broker
from pathlib import Path

async def run():
    async with running_broker(Path(sys.argv[1])):
        pass

asyncio.run(run())
print(*sorted(name for name in sys.modules))
"""
OF_SECURITY = {
    "cryptography",
    "logging.handlers",
    "barnabas_broker.network.bearer_tokens",
    "barnabas_broker.security.audit.audit_writer",
    "barnabas_broker.security.tls.listener_tls",
}
"""The largest: 8 MiB and a quarter of the start came with `cryptography` alone."""


def test_a_plain_broker_loads_nothing_of_security_s_libraries(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "data")],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(result.stdout.split())
    assert "barnabas_broker.server.server" in loaded
    assert not loaded & OF_SECURITY
