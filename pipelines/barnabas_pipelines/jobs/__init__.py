"""Ready-made jobs: each a module with a `JOB`, run by `python -m` or `spark-submit`."""
