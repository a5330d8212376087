"""What was measured on, and what was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy import text

import ebbtide
from ebbtide.store.store import database_at


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system, and how busy it was in the last minute."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": pages,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions(url: str) -> dict[str, str]:
    """Versions of what had a part in it."""
    db = database_at(url, wait=30.0)
    found = {
        "python": platform.python_version(),
        "ebbtide": version("ebbtide"),
        "sqlalchemy": sqlalchemy.__version__,
    }
    if db.name == "duckdb":
        return found | {"duckdb": version("duckdb")}
    with db.connect() as connection:
        server = connection.execute(text("SHOW server_version")).scalar_one()
    db.engine().dispose()
    return found | {"postgresql": str(server).split()[0], "psycopg": psycopg.__version__}


def commit() -> str:
    """The commit of the checkout this runs from, with a plus where files differ from it; else the version."""
    where = Path(ebbtide.__file__).parent
    try:
        head = _git(where, "rev-parse", "--short=12", "HEAD")
        return f"{head}+" if _git(where, "status", "--porcelain", "--", ".") else head
    except (OSError, subprocess.CalledProcessError):
        return version("ebbtide")


def _git(where: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()
