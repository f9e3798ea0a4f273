"""`metrics`: the port for probes has nothing of the page, and counts what the page was told."""

import asyncio
import subprocess
import sys
from pathlib import Path

import aiohttp

from tests.support.in_process_broker import running_broker
from tests.support.processes import free_port

OWN = {"X-Barnabas-Console": "1"}


def test_probes_have_a_port_of_their_own(tmp_path: Path) -> None:
    """CON-132: what the kubelet asks for is there, and nothing else."""

    async def run() -> None:
        port, probe_port = free_port(), free_port()
        async with running_broker(tmp_path) as broker:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "barnabas_cli.main",
                "console",
                *("-b", f"127.0.0.1:{broker.port}", "--port", str(port)),
                *("--probe-port", str(probe_port), "--stop-on-eof"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert process.stdout is not None
            async with asyncio.timeout(30):
                assert b"The console is at" in await process.stdout.readline()
            async with aiohttp.ClientSession() as session:
                probe = f"http://127.0.0.1:{probe_port}"
                for path, status in (("/live", 200), ("/ready", 200), ("/api/v1/session", 404)):
                    async with session.get(probe + path, headers=OWN) as response:
                        assert response.status == status
                page = f"http://127.0.0.1:{port}/api/v1/session"
                async with session.get(page, headers=OWN) as response:
                    assert response.status == 200
                async with session.get(f"{probe}/metrics") as response:
                    text = await response.text()
            assert 'barnabas_console_responses_total{status="200"} 1.0' in text
            assert "process_resident_memory_bytes" in text
            assert process.stdin is not None
            process.stdin.close()
            async with asyncio.timeout(30):
                await process.wait()

    asyncio.run(run())
