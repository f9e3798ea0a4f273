"""The `barnabas` command in this process: arguments in; exit code, output and errors out."""

import json
from typing import Any

from click.testing import CliRunner, Result

from barnabas_cli.main import main


class CommandLine:
    """The command against one cluster; `""` for commands that need none."""

    def __init__(self, bootstrap: str = "") -> None:
        self.bootstrap = bootstrap

    def run(self, *arguments: str, code: int = 0, text: str | None = None) -> Result:
        """Runs a command that is expected to end with this code."""
        environment = {"BARNABAS_BOOTSTRAP_SERVERS": self.bootstrap, "BARNABAS_DEBUG": "0"}
        result = CliRunner().invoke(main, list(arguments), env=environment, input=text)
        assert result.exit_code == code, f"{arguments}: {result.exit_code}\n{result.output}"
        return result

    def lines(self, *arguments: str) -> list[str]:
        """The lines that a command writes."""
        return self.run(*arguments).stdout.splitlines()

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The data that a command writes with -o json."""
        return json.loads(self.run(*arguments, "-o", "json", code=code).stdout)

    def error(self, *arguments: str, code: int = 1) -> str:
        """The one line in which a command fails."""
        result = self.run(*arguments, code=code)
        lines = result.stderr.splitlines()
        assert lines[-1].startswith("Error: ")
        assert "Traceback" not in result.stderr
        return lines[-1].removeprefix("Error: ")
