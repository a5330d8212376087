"""Packs: a namespace, or all of them, as a folder of files; taking one in; what is kept about one person."""

from __future__ import annotations

from pathlib import Path

from ebbtide.api.opened import Opened, Progress, no_progress
from ebbtide.model.identity import identifier
from ebbtide.pack.folder import new_folder
from ebbtide.pack.read import manifest_of
from ebbtide.pack.subject import About, SubjectExport
from ebbtide.pack.take import Import, Imported
from ebbtide.pack.write import Export, Exported


class Packing(Opened):
    """Export and import."""

    def export_pack(
        self, path: Path | str, *, namespace: str | None = None, progress: Progress = no_progress
    ) -> Exported:
        """Writes a portable pack of one namespace, or of all, into a new folder: there whole, or not at all.

        It is read under one snapshot of the store. It holds the content of all memories, and is its owner's to read
        only; content that was erased is not in it. Raises `BadInput` where the folder is there and not empty.
        """
        folder = Path(path)
        if namespace is not None:
            identifier(namespace, "namespace")
        db = self.store.db
        with new_folder(folder) as made, self.store.session() as connection, db.snapshot(connection).begin():
            done = Export(db, connection, made, progress).run(namespace, self._clock())
        return done.model_copy(update={"path": str(folder)})

    def export_subject(
        self, path: Path | str, *, subject: str, namespace: str | None = None, progress: Progress = no_progress
    ) -> About:
        """Writes what is kept about one person into a new folder, as JSON to read: theirs only, and not for import.

        Memories and events whose subject they are, from one namespace or from all. `NotFound` where there is nothing.
        """
        folder = Path(path)
        identifier(subject, "subject")
        if namespace is not None:
            identifier(namespace, "namespace")
        db = self.store.db
        with new_folder(folder) as made, self.store.session() as connection, db.snapshot(connection).begin():
            done = SubjectExport(db, connection, made, subject, progress).run(namespace, self._clock())
        return done.model_copy(update={"path": str(folder)})

    def import_pack(self, path: Path | str, *, progress: Progress = no_progress) -> Imported:
        """Takes a pack in: every checksum, hash and chain is checked before anything is written, all or nothing.

        What is here already stays; a pack that goes on from there is appended, one with another history raises
        `Conflict`. State is folded from the log. Content that was erased here is not brought back.
        """
        folder = Path(path)
        manifest = manifest_of(folder)
        at_hand = {name: policy for name, (policy, _) in self._library.items()}
        with self.store.session() as connection:
            # The temporary tables go with the connection, which therefore does not go back to others.
            connection.detach()
            return Import(self.store.db, connection, folder, manifest, at_hand, self._entropy, progress).run()
