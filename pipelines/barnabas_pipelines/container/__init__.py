"""What the image `pipelines` starts: jobs, and Spark's drivers and executors on Kubernetes.

Not here: anything that a process outside of the image needs.
"""
