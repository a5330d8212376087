"""DuckDB's store as files: the one named, and the end of it beside, where something was written last."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_store(of: Path | str, to: Path | str) -> Path:
    """Copies a store that nobody has open."""
    log = Path(f"{to}.wal")
    log.unlink(missing_ok=True)
    if Path(f"{of}.wal").exists():
        shutil.copy(f"{of}.wal", log)
    return Path(shutil.copy(of, to))


def bytes_of(store: Path | str) -> bytes:
    """All that stands in a store's files."""
    return b"".join(file.read_bytes() for file in (Path(store), Path(f"{store}.wal")) if file.exists())
