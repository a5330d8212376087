"""An entry: one row of the log, as it is written and as the fold reads it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ebbtide.model.words import LifecycleState, OpType, StreamType

SCHEMA_VERSION = 1

After = Mapping[str, Mapping[str, Any]]
"""The state an entry leaves: whole groups of columns by the group's name (see `model.state.GROUPS`)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the log. Instants are µs, scores are in [0, 1] with nine decimals, `after` and `payload` are JSON.

    `salience`, `confidence` and `lifecycle_state` are after-images: None means unchanged.
    `fact_version` is None on what only time did; `carries` names the groups in `after` as bits.
    """

    namespace_id: str
    seq: int
    id: UUID
    stream_type: StreamType
    stream_id: UUID
    version: int
    op_type: OpType
    recorded_at: int
    effective_at: int
    actor_id: str
    actor_type: str
    payload: str
    after: str | None = None
    carries: int = 0
    fact_version: int | None = None
    idempotency_key: str | None = None
    request_hash: bytes | None = None
    lifecycle_state: LifecycleState | None = None
    salience: float | None = None
    confidence: float | None = None
    salience_delta: float | None = None
    confidence_delta: float | None = None
    decay_profile: str | None = None
    policy_id: str | None = None
    policy_version: str | None = None
    content_hash: bytes | None = None
    schema_version: int = SCHEMA_VERSION
    prev_hash: bytes = bytes(32)
    hash: bytes = bytes(32)


@dataclass(frozen=True, slots=True)
class Embedding:
    """What a model made of a text: as many numbers as that model's embeddings have, and its name, empty if unsaid."""

    model: str
    numbers: tuple[float, ...]

    def digest(self) -> str:
        """SHA-256 (hex) over the numbers as big-endian doubles: it stands in the content, so the hash covers them."""
        return hashlib.sha256(struct.pack(f">{len(self.numbers)}d", *self.numbers)).hexdigest()


@dataclass(frozen=True, slots=True)
class Draft:
    """What a request or a rule decided, before the log gave it a place: the writer turns it into an `Entry`.

    `content` is the text a caller wrote; it goes to `contents`, never into the log. An empty one is kept too, for its
    nonce, without which a hash of the request could be guessed.
    """

    stream_type: StreamType
    stream_id: UUID
    op_type: OpType
    effective_at: int
    actor_id: str
    actor_type: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    after: After = field(default_factory=dict)
    fact: bool = True
    lifecycle_state: LifecycleState | None = None
    salience: float | None = None
    confidence: float | None = None
    decay_profile: str | None = None
    policy_id: str | None = None
    policy_version: str | None = None
    content: Mapping[str, Any] | None = None
    content_key: bytes | None = None
    embedding: Embedding | None = None
