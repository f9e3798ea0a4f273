"""The real `kubectl`, if this machine has one, at an API server of a test."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
_SECONDS = 60


def run_kubectl(command: str, address: str, directory: Path) -> str:
    """Run a command that is shown for copying, as a shell takes it apart; what it writes.

    Fails where it does.
    """
    program, *words = shlex.split(command)
    assert program == "kubectl", command
    config = directory / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": ""}}],
                "clusters": [{"name": "test", "cluster": {"server": address}}],
            }
        )
    )
    done = subprocess.run(
        ["kubectl", *words],
        env={**os.environ, "KUBECONFIG": str(config), "HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr or done.stdout}"
    return done.stdout
