"""Serving: the logs, metrics and health of a process that runs by itself."""
