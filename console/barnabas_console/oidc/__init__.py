"""Log-in by an OpenID provider: attempts, the provider, ID tokens, and tokens that brokers see."""
