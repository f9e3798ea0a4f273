"""The ways out of the operator, each behind a small protocol."""
