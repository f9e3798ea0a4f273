"""Share groups (KIP-932), as their group coordinator has them."""
