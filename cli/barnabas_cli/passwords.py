"""Passwords for commands: from a prompt, a file or the environment, never from the command line.

What stands on a command line is seen by everybody on the machine and kept by the shell.
"""

from __future__ import annotations

import functools
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from barnabas_cli.failures import CommandError

VARIABLE: Final = "BARNABAS_USER_PASSWORD"
BYTES_MAX: Final = 4096
_GENERATED_BYTES: Final = 24


def with_password(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a password, and the arguments `password`, `is_generated`."""

    @click.option(
        "--password-file",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        help="A file with the password, '-' for standard input.  [default: a prompt;"
        f" env: {VARIABLE}]",
    )
    @click.option("--generate", is_flag=True, help="Make a password and print it, once.")
    @functools.wraps(function)
    def wrapper(*args: Any, password_file: str | None, generate: bool, **kwargs: Any) -> None:
        if generate and password_file is not None:
            raise click.UsageError("Give --password-file or --generate, not both.")
        password = secrets.token_urlsafe(_GENERATED_BYTES) if generate else _given(password_file)
        function(*args, password=password, is_generated=generate, **kwargs)

    return wrapper


def _given(path: str | None) -> str:
    """The password. Raises: CommandError, click.UsageError, click.Abort."""
    if path is not None:
        if path == "-":
            data = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(path).open("rb") as opened:
                data = opened.read(BYTES_MAX + 1)
        try:
            return _checked(data.decode().rstrip("\r\n"), len(data))
        except UnicodeDecodeError:
            raise CommandError(f"the password in {path} is not UTF-8") from None
    if os.environ.get(VARIABLE):
        return os.environ[VARIABLE]
    if not sys.stdin.isatty():
        raise click.UsageError(f"Give the password with --password-file, or in {VARIABLE}.")
    prompted: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return _checked(prompted, 0)


def _checked(password: str, byte_count: int) -> str:
    if not password:
        raise CommandError("the password is empty")
    if byte_count > BYTES_MAX:
        raise CommandError(f"the password has more than {BYTES_MAX} bytes")
    return password
