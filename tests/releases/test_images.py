"""`make images` and `make load`: which commands they give, with programs that only note them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from releases.images import ROOT, image_name, main, write_oci

NOTE = """#!{python}
import os
import sys
from pathlib import Path
with open({log!r}, "a") as log:
    log.write(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) + "\\n")
if sys.argv[1] == "build" and os.environ.get("DOCKER_BUILDKIT") != "1":
    sys.exit("this builder makes every stage")
sys.exit({status!r} if sys.argv[1] == "info" else 0)
"""


class Programs:
    """Programs on a PATH that has no others; they note how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls"

    def add(self, *names: str, info_status: int = 0) -> None:
        for name in names:
            program = self.folder / name
            text = NOTE.format(python=sys.executable, log=str(self.log), status=info_status)
            program.write_text(text)
            program.chmod(0o755)

    def calls(self) -> list[str]:
        """The calls, without those that only look."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if " inspect " not in line and not line.endswith(" info")]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setenv("PATH", str(tmp_path))
    return Programs(tmp_path)


@pytest.mark.parametrize(
    ("tool", "command"),
    [("docker", "docker build"), ("podman", "podman build"), ("buildah", "buildah bud --layers")],
)
def test_each_tool_builds_the_usual_images_under_their_names(
    programs: Programs, tool: str, command: str
) -> None:
    """Whatever is installed, the chart finds the same names."""
    programs.add(tool)
    assert main(["build", "--base", "localhost/debian:1"]) == 0
    assert programs.calls() == [
        f"{command} --build-arg BASE=localhost/debian:1 --target {target} "
        f"--tag {image_name(target)} {ROOT}"
        for target in ("broker", "operator")
    ]


def test_a_docker_without_its_daemon_is_passed_over(programs: Programs) -> None:
    """A client alone is often installed; it can build nothing."""
    programs.add("docker", info_status=1)
    programs.add("buildah")
    assert main(["build", "--target", "broker"]) == 0
    assert [call.split()[0] for call in programs.calls()] == ["buildah"]


def test_without_a_tool_the_way_out_is_told(
    programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build"]) == 1
    assert "apt-get install buildah" in capsys.readouterr().err
    assert programs.calls() == []


def test_a_registry_is_the_first_part_of_the_names(programs: Programs) -> None:
    programs.add("podman")
    arguments = ["build", "--registry", "registry.example/team", "--target", "broker"]
    assert main(arguments) == 0
    assert f"--tag {image_name('broker', 'registry.example/team')} " in programs.calls()[0]
    assert image_name("broker", "r.example/a").startswith("r.example/a/barnabas-broker:")


@pytest.mark.parametrize(
    ("into", "command"),
    [
        (["--kind", "test"], "kind load image-archive ARCHIVE --name test"),
        (["--minikube", "mine"], "minikube --profile mine image load ARCHIVE"),
        (["--k3s"], "k3s ctr images import ARCHIVE"),
        (
            ["--containerd", "/run/c.sock"],
            "ctr --address /run/c.sock --namespace k8s.io images import ARCHIVE",
        ),
    ],
)
def test_each_kind_of_cluster_is_given_an_archive(
    programs: Programs, into: list[str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form that all of them take, whichever tool has built the image."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    programs.add("buildah", "kind", "minikube", "k3s", "ctr")
    assert main(["load", "--target", "broker", *into]) == 0
    save, loading = programs.calls()
    archive = save.split("docker-archive:")[1].removesuffix(f":{image_name('broker')}")
    assert (
        save
        == f"buildah push {image_name('broker')} docker-archive:{archive}:{image_name('broker')}"
    )
    assert loading == command.replace("ARCHIVE", archive)
    assert not Path(archive).exists()


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        ("docker", "docker save --output FILE NAME"),
        ("podman", "podman save --format oci-archive --output FILE NAME"),
        ("buildah", "buildah push NAME oci-archive:FILE:NAME"),
    ],
)
def test_a_release_has_an_image_as_an_archive_with_its_name(
    programs: Programs, tool: str, command: str
) -> None:
    """Who loads it finds it under the name that the chart's values have."""
    programs.add(tool)
    archive = programs.folder / "image.tar"
    archive.touch()
    write_oci(tool, "broker", archive)
    assert programs.calls() == [
        command.replace("FILE", str(archive)).replace("NAME", image_name("broker"))
    ]
    assert not archive.exists(), "a tool may refuse to write into one that is there"


def test_an_image_that_was_not_built_is_not_loaded(
    programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    (programs.folder / "docker").write_text(
        f"#!{sys.executable}\nimport sys\nsys.exit('inspect' in sys.argv)\n"
    )
    (programs.folder / "docker").chmod(0o755)
    programs.add("kind")
    assert main(["load", "--kind", "test"]) == 1
    error = capsys.readouterr().err
    assert image_name("operator") in error and "make images" in error
    assert programs.calls() == []


def test_make_says_where_images_can_be_loaded_to() -> None:
    done = subprocess.run(["make", "load"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "KIND=name" in done.stdout
