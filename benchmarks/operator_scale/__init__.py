"""How the operator bears many resources: `python -m benchmarks.operator_scale`."""
