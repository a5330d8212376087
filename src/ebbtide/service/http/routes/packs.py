"""Packs: the whole log as files, for `ebb import` or a service elsewhere; and what is kept about one person."""

from __future__ import annotations

import io
import lzma
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path as File
from typing import Annotated, Any
from zipfile import BadZipFile, ZipFile

from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import FileResponse

from ebbtide.model.errors import BadInput
from ebbtide.pack.take import Imported
from ebbtide.service.http.access import Auditor, Ebb, Operator, needs_every_namespace, own
from ebbtide.service.http.edge import LARGEST_BODY
from ebbtide.service.http.fields import Name, Namespace, body_as_sent
from ebbtide.service.http.files import sent

router = APIRouter(tags=["packs"])
ZIP = "application/zip"
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_PACK = {"application/octet-stream": _BYTES | {"example": "PK…"}}
_NO_ZIP = (BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, ValueError, OSError)
"""What a body raises that is no zip, is damaged, encrypted, of an unknown method, or names no file can have."""
_ZIPPED: dict[int | str, dict[str, Any]] = {200: {"description": "A zip of the files", "content": {ZIP: _BYTES}}}


@router.get("/v1/packs", response_class=FileResponse, responses=_ZIPPED)
def export(
    who: Operator, ebb: Ebb, namespace: Annotated[Name | None, Query(description="Only this namespace")] = None
) -> FileResponse:
    """The log, contents and policies of one namespace, or of all, as a zip. It holds the content of all memories."""
    chosen = own(who, namespace)
    return _zipped("pack.zip", lambda folder: ebb.export_pack(folder, namespace=chosen))


@router.post("/v1/packs", openapi_extra={"requestBody": {"description": "A zip of a pack", "content": _PACK}})
def import_(who: Operator, ebb: Ebb, body: Annotated[bytes, Depends(body_as_sent)]) -> Imported:
    """Takes a pack in, all or nothing, once every checksum and hash has been checked; larger ones by `ebb import`."""
    needs_every_namespace(who)
    with tempfile.TemporaryDirectory(prefix="ebbtide-") as folder:
        _unzip(body, File(folder))
        return ebb.import_pack(folder)


@router.get("/v1/namespaces/{namespace:name}/subjects/{subject:name}", response_class=FileResponse, responses=_ZIPPED)
def about(
    namespace: Namespace,
    subject: Annotated[str, Path(description="Whom memories are about", examples=["maya"])],
    who: Auditor,
    ebb: Ebb,
) -> FileResponse:
    """What is kept about one person, to give to them, as a zip of JSON; not for import."""
    return _zipped("about.zip", lambda folder: ebb.export_subject(folder, subject=subject, namespace=namespace))


def _zipped(name: str, export: Callable[[File], object]) -> FileResponse:
    """A folder as one file. Nothing is compressed: Parquet is by itself."""

    def write(file: File) -> None:
        folder = file.with_suffix("")
        export(folder)
        with ZipFile(file, "w") as archive:
            for each in sorted(one for one in folder.rglob("*") if one.is_file()):
                archive.write(each, each.relative_to(folder))

    return sent(name, ZIP, write)


def _unzip(body: bytes, folder: File) -> None:
    """Files of a zip into a folder, and nowhere else; what grows beyond the limit of a body is refused before."""
    try:
        with ZipFile(io.BytesIO(body)) as archive:
            if sum(one.file_size for one in archive.infolist()) > LARGEST_BODY:
                raise BadInput(f"has more than {LARGEST_BODY} bytes unpacked: use `ebb import`", field="body")
            archive.extractall(folder)
    except _NO_ZIP as error:
        raise BadInput(f"is no zip of a pack: {error}", field="body") from error
