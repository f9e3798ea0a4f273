"""What a console knows of its cluster: readings of the metadata, and what they say."""
