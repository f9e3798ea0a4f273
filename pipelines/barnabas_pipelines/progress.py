"""Progress that others can see: a streaming query's offsets, committed to a consumer group.

    committer = attach(spark, bootstrap_servers="localhost:9092", groups={"orders": "orders-job"})
    query = write_topic_stream(...).queryName("orders").start()
    query.awaitTermination()
    committer.close()

Spark keeps offsets in its checkpoint and nowhere else, so no tool sees how far a query is. This
listener commits what each finished batch has read to a group without members: lag shows in
`barnabas group describe`, in Kubernetes, in metrics and in Kafka's own tools. It is for show; a
query never begins at what the group says.

The group mirrors the checkpoint:

- Never ahead: the event of a batch comes after Spark has written the batch's commit. (With Spark's
  asynchronous progress tracking, which writes some commits only, it can be.)
- Behind by the last batch when the driver dies between the two, until the query is started again:
  then the checkpoint's last finished batch is committed, be there new records or not.
- Backwards when the query begins anew with an empty checkpoint. Offsets that somebody set for the
  group are overwritten by the next batch.

A query is known by its name, so two running queries need two names; several may share a group
if they read different topics. Brokers that are away harm no query: see `group_commits.py`.

Not here: the offsets in events (`offsets.py`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from barnabas_client import OffsetAndMetadata, TopicPartition
from barnabas_pipelines.datasource.loop_thread import LoopThread
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.group_commits import GroupCommits
from barnabas_pipelines.offsets import offsets_of_checkpoint, offsets_of_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT_SECONDS: Final = 30.0


@dataclass(slots=True)
class _Run:
    """One run of a query, until all is known of it."""

    query_id: str
    has_finished_batch: bool = False
    has_ended: bool = False
    is_reading_checkpoint: bool = False


class ProgressCommitter(StreamingQueryListener):
    """Commits what each finished batch of the named queries has read; made by `attach`."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        bootstrap_servers: str,
        groups: Mapping[str, str],
        client_settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`groups` has the group of every query by its name; nothing is connected yet.

        `client_settings` are more settings of `Admin`, for TLS and SASL.
        Raises: OptionsError for a name or group that is empty.
        """
        if not groups or not all(name and group for name, group in groups.items()):
            raise OptionsError("groups: give the name of each query and its group, none empty")
        self._session = spark
        self._groups = dict(groups)
        self._thread = LoopThread()
        settings = {"bootstrap_servers": bootstrap_servers, **(client_settings or {})}
        self._commits = self._thread.run(_started(settings))
        self._runs: dict[str, _Run] = {}
        # Guards the runs, and is notified of their changes.
        self._changed = threading.Condition()
        self._is_closed = False

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Show what the checkpoint of a query that is started again has."""
        if event.name not in self._groups:
            return
        query = self._session.streams.get(str(event.id))
        if query is None:
            return
        root = str(query._jsq.streamingQuery().resolvedCheckpointRoot())
        run = _Run(str(event.id), is_reading_checkpoint=True)
        with self._changed:
            self._runs[str(event.runId)] = run
        # Spark waits for this method, so the files are read by another thread.
        self._thread.submit(self._show_checkpoint(event.name, run, root))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit what the batch has read."""
        progress = event.progress
        if progress.name not in self._groups:
            return
        offsets = offsets_of_sources([source.endOffset for source in progress.sources])
        with self._changed:
            run = self._runs.setdefault(str(progress.runId), _Run(str(progress.id)))
            run.has_finished_batch = True
            self._offer(progress.name, offsets, f"batch {progress.batchId}")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note that no more events of this run come."""
        with self._changed:
            run = self._runs.get(str(event.runId))
            if run is not None:
                run.has_ended = True
                self._forget_finished()

    def close(self, timeout_seconds: float = CLOSE_TIMEOUT_SECONDS) -> bool:
        """Wait for the last batch of queries that have ended, commit it, and listen no more.

        Queries that still run are not waited for. Returns whether all was committed in time; a
        second call does nothing.
        """
        if self._is_closed:
            return True
        self._is_closed = True
        with self._changed:
            is_complete = self._changed.wait_for(self._has_all_events, timeout_seconds)
        self._session.streams.removeListener(self)
        try:
            self._thread.submit(self._commits.settle()).result(timeout_seconds)
        except TimeoutError:
            groups = ", ".join(self._commits.waiting_groups)
            _log.warning("the last offsets of %s were not committed in time", groups)
            is_complete = False
        self._thread.run(self._commits.close())
        self._thread.stop()
        return is_complete

    def _has_all_events(self) -> bool:
        """Whether there is no more to come, but of queries that are running."""
        active = {str(query.id) for query in self._session.streams.active}
        return all(
            run.query_id in active and not run.is_reading_checkpoint for run in self._runs.values()
        )

    def _forget_finished(self) -> None:
        """Drop runs of which all is known."""
        self._runs = {
            run_id: run
            for run_id, run in self._runs.items()
            if not run.has_ended or run.is_reading_checkpoint
        }
        self._changed.notify_all()

    def _offer(self, name: str, offsets: Mapping[TopicPartition, int], what: str) -> None:
        text = f"{name}, {what}"
        described = {
            partition: OffsetAndMetadata(offset, metadata=text)
            for partition, offset in offsets.items()
        }
        self._thread.submit(_offered(self._commits, self._groups[name], described))

    async def _show_checkpoint(self, name: str, run: _Run, root: str) -> None:
        try:
            offsets = await asyncio.to_thread(self._read_checkpoint, root)
        except Exception:
            _log.warning("query %s: its checkpoint %s cannot be read", name, root, exc_info=True)
            offsets = {}
        with self._changed:
            run.is_reading_checkpoint = False
            # The offsets of a batch that has finished since are newer.
            if not run.has_finished_batch:
                self._offer(name, offsets, "from the checkpoint")
            self._forget_finished()

    def _read_checkpoint(self, root: str) -> dict[TopicPartition, int]:
        from barnabas_pipelines.storage.hadoop_files import open_store

        return offsets_of_checkpoint(open_store(self._session, root))


async def _started(settings: Mapping[str, Any]) -> GroupCommits:
    commits = GroupCommits(settings)
    commits.start()
    return commits


async def _offered(
    commits: GroupCommits, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    commits.offer(group_id, offsets)


def attach(
    spark: SparkSession,
    *,
    bootstrap_servers: str,
    groups: Mapping[str, str],
    client_settings: Mapping[str, Any] | None = None,
) -> ProgressCommitter:
    """A committer that listens to the session's queries; close it after they have ended.

    Attach it before they start. Raises: OptionsError.
    """
    committer = ProgressCommitter(
        spark,
        bootstrap_servers=bootstrap_servers,
        groups=groups,
        client_settings=client_settings,
    )
    spark.streams.addListener(committer)
    return committer
