"""The port for operators: liveness, readiness, metrics and status over HTTP."""
