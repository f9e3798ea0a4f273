"""Tables that jobs write: what they hold, exactly once, whoever is killed or writes beside them."""
