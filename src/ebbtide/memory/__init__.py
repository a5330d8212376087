"""What a caller can ask of memory: requests, ingest, policies, and reading what is there."""
