"""Which rights a viewer lacks for what pages offer, so that it is shown locked (CON-141)."""
