"""Answers that are files: made in a folder of their own, which goes once they are sent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

JSON, CSV, PARQUET = "application/json", "text/csv", "application/vnd.apache.parquet"
ROWS: dict[int | str, dict[str, object]] = {
    200: {"content": {CSV: {"schema": {"type": "string"}}, PARQUET: {"schema": {"type": "string"}}}}
}
"""What OpenAPI says of rows that come as `Accept` says."""


def sent(name: str, media: str, write: Callable[[Path], object]) -> FileResponse:
    """A file that `write` makes at the path it is given."""
    folder = tempfile.TemporaryDirectory(prefix="ebbtide-")
    try:
        file = Path(folder.name) / name
        write(file)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(file, media_type=media, filename=name, background=BackgroundTask(folder.cleanup))


def preferred(accept: str) -> str:
    """In which form a client would rather have rows; JSON where it does not mind, 406 where it wants another one."""
    wanted: dict[str, float] = {}
    for part in accept.split(","):
        media, _, more = part.partition(";")
        q = next((one.split("=", 1)[1] for one in more.split(";") if one.strip().startswith("q=")), "1")
        wanted[media.strip().lower()] = float(q) if q.strip().replace(".", "", 1).isdecimal() else 0.0

    def how_much(kind: str) -> float:
        return next((wanted[m] for m in (kind, f"{kind.split('/', maxsplit=1)[0]}/*", "*/*") if m in wanted), 0.0)

    best = max((JSON, CSV, PARQUET), key=how_much)
    if not how_much(best):
        raise HTTPException(406, f"there are {JSON}, {CSV} and {PARQUET}")
    return best
