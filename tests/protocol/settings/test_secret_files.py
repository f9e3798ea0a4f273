"""Which files with secrets are told of."""

import stat

import pytest

from barnabas_protocol.settings.secret_files import mount_link, warning_of


@pytest.mark.parametrize(
    ("mode", "is_mounted", "is_told"),
    [
        (0o600, False, False),
        (0o640, False, False),
        (0o622, False, False),
        (0o604, False, True),
        (0o644, False, True),
        (0o644, True, False),
    ],
)
def test_what_everybody_can_read_is_told_of_unless_it_is_mounted(
    mode: int, is_mounted: bool, is_told: bool
) -> None:
    """SEC-114: a group may read it; a Secret in a volume has mode 0644 by default."""
    warning = warning_of("a.setting", "/etc/token", stat.S_IFREG | mode, is_mounted=is_mounted)
    assert (warning is not None) == is_told
    if warning is not None:
        assert warning.startswith("a.setting: everybody on this machine can read /etc/token,")
        assert f"(mode 0{mode:o})" in warning


def test_the_link_of_a_mounted_secret_is_beside_its_files() -> None:
    assert str(mount_link("/etc/secret/token")) == "/etc/secret/..data"
