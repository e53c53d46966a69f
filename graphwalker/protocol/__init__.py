"""The text protocol: what a model writes, what it reads, and how both become chat messages."""
