"""The API server as the operator uses it: reads, server-side apply, patches, Leases, events."""
