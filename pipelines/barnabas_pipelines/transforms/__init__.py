"""What jobs do with records: functions from DataFrame to DataFrame, for jobs and notebooks alike.

Nothing here reads or writes. Modules that need Spark import it at the top, so they are imported by
name: `from barnabas_pipelines.transforms.windows import windowed`. Free of Spark are `measures` and
`window_spec`, which plans and `--dry-run` use.
"""
