"""Ready-made jobs: each a module with a `JOB`, run by `python -m` or `spark-submit`."""

#: All jobs, by the names of their modules, in the order of the documentation.
JOB_NAMES = ("archive", "replay", "aggregate", "snapshot", "quality", "lag_report")
