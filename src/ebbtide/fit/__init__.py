"""Fitting decay policies to a log's own facts: what was recalled, what was missed, and after how long."""
