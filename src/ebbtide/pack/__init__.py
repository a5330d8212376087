"""The portable pack: a folder that holds the whole log of one or all namespaces, and what cannot be told from it.

Files are Parquet and JSON, so that other programs can read them; the format is documented in docs/pack.md.
"""
