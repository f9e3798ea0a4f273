"""The `barnabas` command.

One module per noun, imported when it is used, so that the others cost nothing.
"""

import signal
import threading

# Importing takes a twentieth of a second, in which Ctrl-C would show a traceback; the command
# itself answers to it. Only the main thread may say what a signal does.
_shows_traceback = (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _shows_traceback:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import click  # noqa: E402

from barnabas_cli.groups import Invocation, RootGroup  # noqa: E402

if _shows_traceback:
    signal.signal(signal.SIGINT, signal.default_int_handler)

COMMANDS = {
    "acl": ("barnabas_cli.acl", "ACLs: list, explain, create, delete."),
    "apply": ("barnabas_cli.apply:apply", "Create and change topics as manifests declare."),
    "broker": ("barnabas_cli.broker", "Run one broker with a properties file."),
    "cluster": ("barnabas_cli.cluster", "The cluster: brokers, health, features."),
    "completion": ("barnabas_cli.completion", "Complete commands and names in the shell."),
    "config": ("barnabas_cli.config", "Settings of topics, brokers, groups and clients."),
    "console": ("barnabas_cli.console", "The web page about a cluster."),
    "consume": ("barnabas_cli.consume", "Read records from a topic."),
    "dev": ("barnabas_cli.dev", "Run a broker on this machine without configuration."),
    "diff": ("barnabas_cli.apply:diff", "Show what 'apply' would change."),
    "drain": ("barnabas_cli.drain:drain", "Move leaderships away from this machine's broker."),
    "group": ("barnabas_cli.group", "Consumer groups: lag, members, resetting offsets."),
    "log": ("barnabas_cli.log", "Inspect and import partition directories."),
    "produce": ("barnabas_cli.produce", "Write lines as records to a topic."),
    "quota": ("barnabas_cli.quota", "Quotas of users and clients: list, set, delete."),
    "share": ("barnabas_cli.share", "Share groups (queues): lag, members, consuming."),
    "topic": ("barnabas_cli.topic", "Topics: list, describe, create, alter, delete."),
    "transaction": ("barnabas_cli.transaction", "Transactions: list, describe, hanging, abort."),
    "undrain": ("barnabas_cli.drain:undrain", "Take a drain back."),
    "user": ("barnabas_cli.user", "Users and their SCRAM passwords: create, rotate, delete."),
    "whoami": ("barnabas_cli.whoami", "Who brokers take this client for, and its rights."),
}


@click.group(
    cls=RootGroup,
    lazy_commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 'diff' found differences.",
)
@click.option("-b", "--bootstrap-server", "bootstrap_servers", metavar="HOST:PORT,...", hidden=True)
@click.option(
    "--command-config", hidden=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE"
)
@click.option("--profile", hidden=True, metavar="NAME")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours in the output; NO_COLOR switches them off too.",
)
@click.version_option(package_name="barnabas", message="barnabas %(version)s")
@click.pass_context
def main(
    context: click.Context,
    bootstrap_servers: str | None,
    command_config: str | None,
    profile: str | None,
    debug: bool,
    color: str,
) -> None:
    """Barnabas: a message broker that speaks Apache Kafka's protocol.

    Commands that talk to a cluster find it through --bootstrap-server, by default 127.0.0.1:9092.
    """
    from barnabas_cli.output import is_colourful

    context.color = is_colourful(color)
    invocation = context.ensure_object(Invocation)
    invocation.is_debugging = invocation.is_debugging or debug
    invocation.bootstrap_servers = bootstrap_servers
    invocation.command_config = command_config
    invocation.profile = profile
    invocation.color = context.color


if __name__ == "__main__":
    main()
