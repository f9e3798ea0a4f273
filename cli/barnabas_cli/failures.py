"""The error message of a failed command, in one line, and its exit code.

Exit codes (scripts depend on them): 0 done; 1 failed; 2 the command line is wrong; 3 `diff` found
differences; 130 ended by Ctrl-C; 141 the reader of the output went away; 143 ended by SIGTERM.
"""

from __future__ import annotations

import click

FAILED = 1
WRONG_USAGE = 2
DIFFERENCES = 3
INTERRUPTED = 130
OUTPUT_CLOSED = 141
TERMINATED = 143


class CommandError(click.ClickException):
    """A failure whose message contains what to do."""

    exit_code = FAILED


def describe(error: Exception) -> tuple[str, int]:
    """The line that the user sees and the exit code."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, click.UsageError):
        return _usage(error), WRONG_USAGE
    if isinstance(error, click.ClickException):
        return _one_line(error.format_message()), error.exit_code
    if isinstance(error, OSError):
        subject = f"{error.filename}: " if error.filename else ""
        return _one_line(f"{subject}{error.strerror or error}"), FAILED
    from barnabas_client.errors import BarnabasError

    if isinstance(error, BarnabasError):
        return _one_line(f"{error}{_advice(error)}"), FAILED
    name = type(error).__name__
    return _one_line(f"{name}: {error} (unexpected: please report it with --debug)"), FAILED


def _usage(error: click.UsageError) -> str:
    message = _one_line(error.format_message())
    if error.ctx is None:
        return message
    return f"{message} (see '{error.ctx.command_path} --help')"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _advice(error: Exception) -> str:
    """What to do about an error of the client, if its message does not contain it."""
    from barnabas_client.errors import (
        AuthenticationError,
        AuthorizationError,
        BrokerUnreachableError,
        ConfigurationError,
        TimedOutError,
    )

    match error:
        case BrokerUnreachableError():
            return ": start a broker ('barnabas dev') or name one with --bootstrap-server HOST:PORT"
        case TimedOutError():
            return ": the broker may be busy; raise --api-timeout"
        case AuthenticationError():
            return ": settings and credentials come from --command-config FILE or --profile NAME"
        case ConfigurationError():
            return ": settings come from --command-config FILE or --profile NAME"
        case AuthorizationError():
            return (
                ": get the rights ('barnabas acl explain'), or use other credentials with"
                " --command-config FILE or --profile NAME"
            )
    return ""
