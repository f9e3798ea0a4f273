"""Membership in consumer groups, by the classic protocol and by that of KIP-848."""
