"""Certificates of the webhook for tests, in the files of a Secret."""

import os
import shutil
import ssl
from pathlib import Path

from tests.support.tls_files import TlsFiles


def webhook_certificates(directory: Path) -> tuple[Path, Path]:
    """The folder with tls.crt and tls.key for localhost, and the authority's certificate."""
    made = TlsFiles(directory / "made").create("localhost")
    folder = directory / "certificates"
    folder.mkdir()
    put(made.broker_certificate, folder / "tls.crt")
    put(made.broker_key, folder / "tls.key")
    return folder, made.authority


def put(source: Path, target: Path) -> None:
    """Replace a file at one stroke, as the kubelet does."""
    shutil.copy(source, f"{target}.new")
    os.replace(f"{target}.new", target)


def trust(authority: Path) -> ssl.SSLContext:
    """What a client needs to believe the webhook."""
    return ssl.create_default_context(cafile=authority)
