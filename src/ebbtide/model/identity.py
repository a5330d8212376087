"""Names and ids: how a caller's ref becomes an id, how an entry gets its own, and which names are taken."""

import hashlib
import re
import uuid

from ebbtide.model.errors import BadInput

ROOT = uuid.UUID("6b7f3c1e-3b0e-5c57-9c43-6f2d9a1d7e55")
"""Root of all UUIDv5 that Ebbtide derives from a caller's refs. Part of the format."""

MAX_IDENTIFIER = 255
_CONTROL = re.compile(r"[\x00-\x1f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SEPARATOR = "\x1f"


def identifier(name: str, field: str) -> str:
    """A ref, actor, stream, subject or namespace as it may stand in the log, or a refusal."""
    if not name or not name.strip():
        raise BadInput("is empty", field=field)
    if _CONTROL.search(name):
        raise BadInput("holds a control character (U+0000 to U+001F): leave it out", field=field)
    if _SURROGATE.search(name):
        raise BadInput("is not text that UTF-8 can hold", field=field)
    if len(name) > MAX_IDENTIFIER:
        raise BadInput(f"is longer than {MAX_IDENTIFIER} characters", field=field)
    return name


def id_in(name: str) -> uuid.UUID | None:
    """The id that a text is, or None where it is something else: ids are UUIDs of version 5 or 8."""
    try:
        found = uuid.UUID(name) if len(name) == 36 else None
    except ValueError:
        return None
    return found if found is not None and found.version in (5, 8) else None


def id_of_ref(namespace: str, ref: str) -> uuid.UUID:
    """UUIDv5 over (namespace, ref): the id of the object, or event, that a caller named."""
    return uuid.uuid5(ROOT, f"{namespace}{_SEPARATOR}{ref}")


def id_of_stream(namespace: str, stream: str) -> uuid.UUID:
    """UUIDv5 over (namespace, stream), kept apart from refs."""
    return uuid.uuid5(ROOT, f"{namespace}{_SEPARATOR}stream{_SEPARATOR}{stream}")


def id_of_namespace(namespace: str) -> uuid.UUID:
    """The id of a namespace's own stream."""
    return uuid.uuid5(ROOT, namespace)


def uuid8(*parts: str | int) -> uuid.UUID:
    """UUIDv8 from SHA-256 over what it stands for; version nibble 8, variant nibble 8 (RFC 9562)."""
    digest = hashlib.sha256(_SEPARATOR.join(str(part) for part in parts).encode()).hexdigest()
    return uuid.UUID(f"{digest[:12]}8{digest[13:16]}8{digest[17:32]}")


def id_of_entry(namespace: str, seq: int) -> uuid.UUID:
    """The id of the entry at a place of the log."""
    return uuid8(namespace, seq)
