"""The command line: `ebb`."""
