"""The HTTP API: a thin layer over the Python API. No rule of the domain, and no SQL, is here."""
