"""Decay policies: immutable, versioned documents of parameters, and the files they come from."""
