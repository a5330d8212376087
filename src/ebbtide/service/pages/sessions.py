"""Who is signed in: sessions in the memory of this process, known by a random id in a cookie.

A session keeps the token it was made with, and every request asks the store for it again: once revoked or expired, it
opens nothing. A restart signs everybody out.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

COOKIE = "ebb_session"
IDLE = 8 * 3600.0
"""Seconds without a request after which a session ends."""
MOST = 10_000
"""So many sessions at a time; beyond, the one that was idle longest ends."""


@dataclass
class Session:
    """One browser. `token` is None only where the service asks for none; `notes` are told on its next page.
    `receipt` is that of its last erasure."""

    token: str | None
    seen: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notes: list[tuple[str, str]] = field(default_factory=list)
    receipt: str | None = None

    def __repr__(self) -> str:
        """Without what opens anything."""
        return "Session()"

    def sent(self, csrf: object) -> bool:
        """Whether a form came from a page of this session."""
        return isinstance(csrf, str) and hmac.compare_digest(csrf.encode(), self.csrf.encode())

    def told(self) -> list[tuple[str, str]]:
        """The notes, once."""
        found, self.notes = self.notes, []
        return found


class Sessions:
    """All sessions of a service, by the hash of their ids."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, Session] = {}

    def open(self, token: str | None) -> tuple[str, Session]:
        """A new session, and its id for the cookie."""
        name, now = secrets.token_urlsafe(32), self._clock()
        session = Session(token, now)
        with self._lock:
            self._known = {key: one for key, one in self._known.items() if one.seen > now - IDLE}
            if len(self._known) >= MOST:
                del self._known[min(self._known, key=lambda key: self._known[key].seen)]
            self._known[_key(name)] = session
        return name, session

    def find(self, name: str | None) -> Session | None:
        """The session of a cookie; None where there is none, or it was idle for too long."""
        if not name:
            return None
        now = self._clock()
        with self._lock:
            session = self._known.get(_key(name))
            if session is None or session.seen <= now - IDLE:
                return None
            session.seen = now
            return session

    def close(self, name: str | None) -> None:
        """Ends a session."""
        with self._lock:
            self._known.pop(_key(name or ""), None)


def _key(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "replace")).digest()
