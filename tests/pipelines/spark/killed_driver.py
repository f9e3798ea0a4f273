"""A driver that dies when Spark has finished a query's second batch, before the group hears of it.

python -m tests.pipelines.spark.killed_driver BOOTSTRAP TOPIC GROUP CHECKPOINT
"""

import os
import signal
import sys
import threading
from typing import Any

from barnabas_pipelines import read_topic_stream, session
from barnabas_pipelines.progress import ProgressCommitter


class DyingCommitter(ProgressCommitter):
    """Commits the first batch, and is killed by the second."""

    def onQueryProgress(self, event: Any) -> None:
        if event.progress.batchId == 1:
            self._thread.submit(self._commits.settle()).result(30)
            os.kill(os.getpid(), signal.SIGKILL)
        super().onQueryProgress(event)


def write(batch: Any, batch_id: int) -> None:
    """Finish no third batch: the checkpoint must not be at the end."""
    if batch_id == 2:
        _wait_for_death()


def _wait_for_death() -> None:
    threading.Event().wait(60)


def main(bootstrap: str, topic: str, group: str, checkpoint: str) -> None:
    conf = {"spark.sql.shuffle.partitions": "2"}
    spark = session("killed", master="local[1]", conf=conf, log_level="ERROR")
    spark.streams.addListener(
        DyingCommitter(spark, bootstrap_servers=bootstrap, groups={"killed": group})
    )
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "60",
    }
    frame = read_topic_stream(spark, options)
    writer = frame.writeStream.queryName("killed").foreachBatch(write)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    _wait_for_death()


if __name__ == "__main__":
    main(*sys.argv[1:])
