"""The metadata log, its records, images and snapshots."""
