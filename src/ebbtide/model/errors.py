"""What can go wrong, one class per exit code, each a single line that says what, where and what to do."""

from __future__ import annotations


class EbbtideError(Exception):
    """Base of every error that Ebbtide raises on purpose.

    `code` is a stable word for scripts, `exit_code` the exit status of the command line. `file`, `line`,
    `field` and `object` say where, as far as it is known.
    """

    exit_code = 1
    code = "error"

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
        object: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.field = field
        self.object = object

    def at(self, file: str, line: int) -> EbbtideError:
        """The same error, told where in which file it lies."""
        self.file, self.line = file, line
        return self

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        field = f"{self.field}: " if self.field else ""
        return f"{place}{field}{self.message}"

    def document(self) -> dict[str, dict[str, str | int | None]]:
        """The error as the JSON document of `--format json`."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "file": self.file,
                "line": self.line,
                "field": self.field,
                "object": self.object,
            }
        }


class CheckFailed(EbbtideError):
    """A check found something wrong."""

    exit_code = 1
    code = "check_failed"


class BadInput(EbbtideError):
    """Input that cannot be taken; nothing was written."""

    exit_code = 2
    code = "bad_input"


class NotFound(BadInput):
    """A name that nothing in the store bears."""

    code = "not_found"


class NotInstalled(BadInput):
    """A library is asked for that comes with an extra, and is not there."""

    code = "not_installed"


class StoreUnavailable(EbbtideError):
    """The store is busy, out of reach, or not migrated."""

    exit_code = 3
    code = "store_unavailable"


class Refused(EbbtideError):
    """A rule said no. The request stands in `refusals`; nothing else was written."""

    exit_code = 4
    code = "refused"

    def __init__(self, message: str, *, rule: str, object: str | None = None) -> None:
        super().__init__(message, object=object)
        self.rule = rule


class Conflict(Refused):
    """Another writer was first, or the same name was used for something else."""

    code = "conflict"
