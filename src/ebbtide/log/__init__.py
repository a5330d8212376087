"""The append-only log: canonical form, hash chain, batches, reading. It does not know what its entries mean."""
