"""All scripts, in the order in which they run."""

from tests.interop.oracle import (
    cluster_scripts,
    commit_scripts,
    config_scripts,
    consumer_group_scripts,
    fetch_scripts,
    group_scripts,
    offset_scripts,
    produce_scripts,
    rebalance_scripts,
    telemetry_scripts,
    topic_scripts,
)
from tests.interop.oracle.side import Script

SCRIPTS: tuple[Script, ...] = (
    *cluster_scripts.SCRIPTS,
    *topic_scripts.SCRIPTS,
    *config_scripts.SCRIPTS,
    *produce_scripts.SCRIPTS,
    *fetch_scripts.SCRIPTS,
    *offset_scripts.SCRIPTS,
    *group_scripts.SCRIPTS,
    *commit_scripts.SCRIPTS,
    *rebalance_scripts.SCRIPTS,
    *consumer_group_scripts.SCRIPTS,
    *telemetry_scripts.SCRIPTS,
)
