"""`python -m barnabas_operator`: reads the settings, logs to standard output, runs the operator."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from barnabas_operator.garbage import ShortCollections
from barnabas_operator.operator_process import OperatorProcess
from barnabas_operator.settings import OperatorSettings, SettingsError


def main() -> int:
    """Run until told to stop; returns the exit code."""
    level = os.environ.get("BARNABAS_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(
        stream=sys.stdout, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Each finished activity of kopf would be a line at the level at which we tell what we do.
    logging.getLogger("kopf").setLevel(max(logging.getLogger().level, logging.WARNING))
    try:
        settings = OperatorSettings.from_environment()
    except SettingsError as error:
        logging.getLogger(__name__).error("%s", error)
        return 2
    ShortCollections().install()
    asyncio.run(_run(settings))
    return 0


async def _run(settings: OperatorSettings) -> None:
    await OperatorProcess(settings).run()
