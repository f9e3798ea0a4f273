"""The latest value of each key of a topic as a table of Parquet: its versions, and how to read one.

from barnabas_pipelines.snapshot.table import latest_snapshot
pandas.read_parquet(latest_snapshot("/data/users"))
"""
