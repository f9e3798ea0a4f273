"""X.509 for Brokers and Users: authorities, leaves, bundles, when each of them changes. Pure."""
