"""The share consumer: records of a share group, each acknowledged on its own (KIP-932)."""

from barnabas_client.share.records import AcknowledgedRange as AcknowledgedRange
from barnabas_client.share.records import AcknowledgementCallback as AcknowledgementCallback
from barnabas_client.share.records import AcknowledgementResult as AcknowledgementResult
from barnabas_client.share.records import AcknowledgeType as AcknowledgeType
from barnabas_client.share.records import ShareRecord as ShareRecord
from barnabas_client.share.share_consumer import ShareConsumer as ShareConsumer
