"""The log against a brute-force model, in random histories with crashes."""
