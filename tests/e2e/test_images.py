"""`make images` and `make load`, as docs/install.md has them: buildah, a node's containerd."""

import os
import subprocess
from pathlib import Path

from releases.images import ROOT, image_name
from tests.e2e.support.cluster import Cluster, lab_shell

# The lab has no registry: its own Debian, its own storage, and certificates to reach an index.
BUILD = (
    "TOOL=buildah",
    "TARGETS=broker",
    "BASE=localhost/debian:1",
    "OPTIONS=--isolation chroot --volume=/etc/ssl/certs:/etc/ssl/certs:ro",
)


def test_a_node_has_the_image_that_was_made_and_loaded(lab: Cluster, tmp_path: Path) -> None:
    """Under the name that the chart asks for, so that nothing has to be pulled."""
    storage = tmp_path / "storage.conf"
    storage.write_text(
        '[storage]\ndriver = "overlay"\n'
        f'graphroot = "{lab.cache}/buildah"\nrunroot = "{lab.cache}/buildah-run"\n'
    )
    environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage)}
    socket = lab_shell('printf "%s" "$(socket_of 1)"')
    ctr = ["ctr", "--address", socket, "--namespace", "k8s.io", "images"]

    def make(*words: str) -> None:
        subprocess.run(["make", *words], cwd=ROOT, env=environment, check=True)

    make("images", *BUILD)
    make("load", "TOOL=buildah", "TARGETS=broker", f"CONTAINERD={socket}")
    listed = subprocess.run([*ctr, "ls", "-q"], capture_output=True, text=True, check=True).stdout
    assert image_name("broker") in listed.split()
    subprocess.run([*ctr, "rm", image_name("broker")], check=True)
