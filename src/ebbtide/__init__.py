"""Ebbtide: an event-sourced lifecycle service for memory, with decay and forgetting under versioned policies."""

from importlib.metadata import version

from ebbtide.api import Ebbtide
from ebbtide.model.errors import (
    BadInput,
    CheckFailed,
    Conflict,
    EbbtideError,
    NotFound,
    Refused,
    StoreUnavailable,
)

__version__ = version("ebbtide")

__all__ = [
    "BadInput",
    "CheckFailed",
    "Conflict",
    "Ebbtide",
    "EbbtideError",
    "NotFound",
    "Refused",
    "StoreUnavailable",
    "__version__",
]
