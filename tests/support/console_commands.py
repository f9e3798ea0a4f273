"""Commands that a page of the console offers to copy, carried out as somebody would."""

import asyncio
import json
import shlex
from collections.abc import Sequence
from typing import Any

import click

from barnabas_cli.main import main
from tests.support.barnabas_process import barnabas_command


async def output_of(bootstrap: str, text: str, *options: str) -> str:
    """What such a command writes, with options of ours besides."""
    words = shlex.split(text)
    assert words[0] == "barnabas"
    place = words.index("--") if "--" in words else len(words)
    words[place:place] = [*options, "-b", bootstrap]
    process = await asyncio.create_subprocess_exec(
        str(barnabas_command()), *words[1:], stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, text
    return output.decode()


async def command(bootstrap: str, text: str) -> Any:
    """What such a command writes with -o json."""
    return json.loads(await output_of(bootstrap, text, "-o", "json"))


def parsed(text: str) -> dict[str, Any]:
    """What the command line takes such a command for, by its own parser; nothing is run.

    Raises: click.ClickException where it would not take it.
    """
    program, *rest = shlex.split(text)
    assert program == "barnabas", text
    words: Sequence[str] = rest
    command: click.Command = main
    context = click.Context(command, info_name=program)
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, text
        command, context = found, click.Context(found, parent=context, info_name=name)
    return command.make_context(context.info_name, [*words], parent=context.parent).params
