"""Changes of the metadata of a broker that is not running, for the command line."""
