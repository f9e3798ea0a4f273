"""Every error that pipelines raise by themselves: the type says what to do.

    OptionsError        an option is unknown, malformed or contradicts another: change it
    DataLossError       records that were to be read are gone: decide, then go on
    TopicGoneError      a topic that is read does not exist (any more)
    UnreachableError    no broker answers
    CorruptDataError    a batch cannot be read: look at the broker's disk
    StalledError        records that must be there do not come
    ColumnsError        a DataFrame does not have the columns that a topic takes: change it
    DeliveryError       rows were not acknowledged by the brokers: see why, write them again

Not here: how Spark shows them. It prints the text of a Python error behind the worker's traceback
and cuts long ones, so the first sentence says what is wrong, and what to do follows.

Invariants: all derive from `PipelineError`, take one text, and so can be pickled.
"""

from __future__ import annotations


class PipelineError(Exception):
    """All that pipelines raise by themselves."""


class OptionsError(PipelineError, ValueError):
    """An option is unknown, malformed, out of range, missing or contradicts another."""


class DataLossError(PipelineError):
    """Records that were to be read are gone; the text says which, how many, and what to do."""


class TopicGoneError(PipelineError):
    """A topic or partition that is to be read does not exist, or not any more."""


class UnreachableError(PipelineError):
    """No broker could be reached for as long as the settings allow."""


class CorruptDataError(PipelineError):
    """What a broker has stored fails its checksum or cannot be decoded."""


class StalledError(PipelineError):
    """The broker says that there are records, but none came for as long as the options allow."""


class ColumnsError(PipelineError, ValueError):
    """A DataFrame that is to be written lacks a column, or has one of a wrong type."""


class DeliveryError(PipelineError):
    """Rows could not be written; some of the same task may have been."""
