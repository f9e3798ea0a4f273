"""The cluster under test: the lab of this repository, or one that `E2E_KUBECONFIG` names.

The lab is built (once, outside the tree), started and left running: the next run finds it warm, and
`tests/e2e/lab/down.sh` stops it. Only there can a test take daemons of Kubernetes away and read the
audit log; `lab_only` skips such a test elsewhere and says so.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.support.kubectl import Kubectl, run_program

LAB = Path(__file__).resolve().parents[1] / "lab"
# Nothing cached, all built on a small machine that does other things as well.
BUILD_SECONDS = 5400


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster and the programs that speak to it."""

    kubeconfig: Path
    kubectl: Kubectl
    helm: str
    #: Folders of the lab, None where the cluster is another one.
    cache: Path | None
    state: Path | None

    @property
    def is_lab(self) -> bool:
        return self.state is not None

    @property
    def audit_log(self) -> Path:
        """What the API server was asked to write, one JSON document a line."""
        assert self.state is not None
        return self.state / "audit.log"

    def build(self, *extras: str) -> None:
        """Make what only some tests want: `build.sh` tells what there is."""
        assert self.is_lab
        run_script("build.sh", *extras, timeout_seconds=BUILD_SECONDS)

    def definitions(self, name: str) -> Path:
        """The folder with the definitions of others that `build.sh` has fetched."""
        assert self.cache is not None
        return self.cache / "definitions" / name

    def daemon(self, action: str, *daemons: str) -> None:
        """`stop`, `kill` or `start` daemons of the lab."""
        assert self.is_lab
        run_script("daemon.sh", action, *daemons, timeout_seconds=120)

    def kill_container(self, pod: Any) -> None:
        """End, by kill -9, the first process of a pod's only container."""
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        node = pod["spec"]["nodeName"]
        run_script("kill_container.sh", node, container, timeout_seconds=30)

    def lose_node(self, node: str) -> None:
        """As if its machine were switched off for good; `up` brings it back with its old disk."""
        run_script("lose_node.sh", node, timeout_seconds=60)

    def up(self) -> None:
        """Start what is not running, and wait until it is ready."""
        run_script("up.sh", timeout_seconds=300)


def bring_up() -> Cluster:
    """A cluster that is ready to be used."""
    given = os.environ.get("E2E_KUBECONFIG")
    if given:
        kubeconfig = Path(given).resolve()
        kubectl = Kubectl(kubeconfig)
        kubectl.run("get", "--raw", "/readyz")
        return Cluster(kubeconfig=kubeconfig, kubectl=kubectl, helm="helm", cache=None, state=None)
    run_script("build.sh", timeout_seconds=BUILD_SECONDS)
    run_script("up.sh", timeout_seconds=300)
    cache, state = lab_cache(), Path(lab_shell('printf "%s" "$STATE"'))
    kubeconfig = state / "kubeconfig"
    return Cluster(
        kubeconfig=kubeconfig,
        kubectl=Kubectl(kubeconfig, str(cache / "bin" / "kubectl")),
        helm=str(cache / "bin" / "helm"),
        cache=cache,
        state=state,
    )


def run_script(name: str, *arguments: str, timeout_seconds: float) -> str:
    """What a script of the lab prints."""
    return run_program(["bash", str(LAB / name), *arguments], timeout_seconds=timeout_seconds)


def lab_cache() -> Path:
    """The folder of what the lab has built."""
    return Path(lab_shell('printf "%s" "$CACHE"'))


def lab_shell(script: str) -> str:
    """What a shell prints that has the lab's settings."""
    done = subprocess.run(
        ["bash", "-c", f'set -e; . "{LAB}/settings.sh"; {script}'],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout
