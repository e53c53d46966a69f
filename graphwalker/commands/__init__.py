"""The subcommands of `graphwalker`; graphwalker/cli.py lists them and imports only the one that is run."""
