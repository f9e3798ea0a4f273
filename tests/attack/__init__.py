"""An attack on real brokers, from an ordinary client's place, and its verdict."""
