"""What a database must be able to do for Ebbtide: the few places where the two differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Double,
    Engine,
    LargeBinary,
    Select,
    Table,
    Text,
    Uuid,
    case,
    cast,
    func,
    literal,
)
from sqlalchemy.exc import DBAPIError

from ebbtide.model.errors import BadInput, StoreUnavailable
from ebbtide.model.instant import DAY, SECOND

Row = Mapping[str, Any]
Path = tuple[str, ...]
"""Names of members, from the outermost in."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a SELECT gives: its columns, and its rows as they come. Ids are texts, numbers without bounds decimals."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Confines:
    """What a SELECT of an auditor may do: read these views of schema `audit`, for so many seconds."""

    views: Sequence[str]
    seconds: float

    def late(self) -> BadInput:
        """The error of one that took too long."""
        return BadInput(f"took longer than {self.seconds:g} s and was stopped: ask for less, or allow it more time")

    @staticmethod
    def old() -> StoreUnavailable:
        """The error of a store without these views."""
        return StoreUnavailable("the store has not all views: run `ebb migrate`")


class SqlMaths:
    """The formulas' mathematics over SQL columns: the database calls the same libm as Python does."""

    null = None

    @staticmethod
    def exp(x: Any) -> Any:
        return func.exp(x, type_=Double)

    @staticmethod
    def ln(x: Any) -> Any:
        return func.ln(x, type_=Double)

    @staticmethod
    def floor(x: Any) -> Any:
        return func.floor(x, type_=Double)

    @staticmethod
    def least(*xs: Any) -> Any:
        return func.least(*xs, type_=_type_of(xs))

    @staticmethod
    def greatest(*xs: Any) -> Any:
        return func.greatest(*xs, type_=_type_of(xs))

    @staticmethod
    def where(condition: Any, then: Any, otherwise: Any) -> Any:
        return case((condition, then), else_=otherwise)

    @staticmethod
    def known(x: Any, otherwise: Any) -> Any:
        return func.coalesce(x, otherwise)

    @staticmethod
    def real(x: Any) -> Any:
        return cast(x, Double)

    @staticmethod
    def days(micros: Any) -> Any:
        return cast(micros, Double) / literal(float(DAY), Double)

    @staticmethod
    def among(x: Any, values: Sequence[str]) -> Any:
        return x.in_([str(value) for value in values])

    @staticmethod
    def whole_second(micros: Any) -> Any:
        seconds = func.ceil(cast(micros, Double) / literal(float(SECOND), Double), type_=Double)
        return cast(seconds, BigInteger) * literal(SECOND, BigInteger)


def _type_of(xs: Sequence[Any]) -> Any:
    return next(x.type for x in xs if isinstance(x, ColumnElement))


SQL = SqlMaths()


class Database(ABC):
    """One of the two databases. Expressions are SQLAlchemy's; connections are within a transaction of the caller."""

    name: ClassVar[str]
    schema: ClassVar[str]
    """The schema that the tables are in."""

    _built: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls._built = {}

    def once(self, name: str, build: Callable[[], Any]) -> Any:
        """Something built once for this kind of database, whichever the store: usually statements.

        To build them costs more than to run them. They hang on what `name` says, and on nothing else.
        """
        if name not in self._built:
            self._built[name] = build()
        return self._built[name]

    @abstractmethod
    def engine(self) -> Engine:
        """The engine: connections are made when asked for."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is anything to connect to; what only connecting can tell counts as there."""

    @abstractmethod
    def connect(self) -> AbstractContextManager[Connection]:
        """Opens a connection, waiting a bounded time for a busy store.

        Raises `StoreUnavailable` that says who holds it, or why it cannot be reached.
        """

    def kept_open(self) -> AbstractContextManager[Any]:
        """Keeps the store open from one transaction to the next, where it is the opening that takes time."""
        return nullcontext()

    @abstractmethod
    def selected(
        self, query: str, parameters: Sequence[Any] | Mapping[str, Any], within: Confines
    ) -> AbstractContextManager[Selection]:
        """Runs one SELECT that somebody else wrote, over the audit views alone, while it is open.

        Nothing can be written, and no file or network be read. Raises `BadInput` for anything but one SELECT, for what
        is no view, for functions that do more than compute, for its errors, and where it takes too long.
        """

    @abstractmethod
    def bulk_insert(self, connection: Connection, table: Table, rows: Sequence[Row]) -> None:
        """Inserts rows in one go."""

    @abstractmethod
    def upsert(self, connection: Connection, table: Table, rows: Sequence[Row]) -> None:
        """Inserts rows or, where the primary key is there, overwrites all other columns."""

    @abstractmethod
    def arrow(self, connection: Connection, query: Select[Any], size: int) -> Iterator[pa.RecordBatch]:
        """The rows of a query, so many at a time; nothing else may be asked of the connection until they are read."""

    @abstractmethod
    def load(self, connection: Connection, table: Table, batch: pa.RecordBatch) -> None:
        """Inserts the rows of a batch whose columns are those of a table."""

    @abstractmethod
    def in_place(self, staged: Table, target: Table, namespace: Any) -> Any:
        """Staged rows in the order in which an UPDATE of a table's rows of the same `object_id` is quick."""

    @abstractmethod
    def among(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """`column` is one of any number of values."""

    @abstractmethod
    def sha256(self, raw: ColumnElement[Any]) -> ColumnElement[bytes]:
        """SHA-256 of bytes, as 32 bytes."""

    def digest(self, raw: ColumnElement[Any]) -> ColumnElement[str]:
        """SHA-256 of bytes, as lower-case hexadecimal."""
        return self.hex(self.sha256(raw))

    @abstractmethod
    def utf8(self, text: Any) -> ColumnElement[bytes]:
        """A text as bytes."""

    @abstractmethod
    def hex(self, raw: Any) -> ColumnElement[str]:
        """Bytes as lower-case hexadecimal."""

    @abstractmethod
    def unhex(self, text: Any) -> ColumnElement[bytes]:
        """Bytes from hexadecimal."""

    @abstractmethod
    def join_bytes(self, raw: Any, order_by: Any) -> ColumnElement[bytes]:
        """Aggregate: bytes of all rows, one after the other."""

    @abstractmethod
    def cosine(self, a: ColumnElement[Any], b: ColumnElement[Any]) -> ColumnElement[float]:
        """The cosine of two arrays of as many doubles, neither all zeros; the last bits are the database's own."""

    def compares_roughly(self, connection: Connection) -> bool:
        """Whether there is a quick test of two embeddings, `near`."""
        del connection
        return False

    def near(self, a: Any, b: Any, cosine: Any) -> ColumnElement[bool]:
        """A quick test that every pair passes whose cosine is at least the given one: true where there is none."""
        del a, b, cosine
        return literal(True)

    @abstractmethod
    def json(self, document: Any) -> ColumnElement[Any]:
        """A JSON text, ready to be read by `member`: parsed once where the database keeps it so."""

    @abstractmethod
    def member(self, document: Any, *path: str) -> ColumnElement[str]:
        """The value at a path of a `json` document, as text; null where it is null or absent."""

    @abstractmethod
    def document(self, document: Any, paths: Sequence[Path]) -> ColumnElement[Any]:
        """A JSON text of which `part` reads some paths, parsed once for all of them; to be computed behind a fence."""

    @abstractmethod
    def part(self, document: Any, paths: Sequence[Path], path: Path) -> ColumnElement[str]:
        """The value at one of the paths of a `document`, as text; null where it is null or absent."""

    @abstractmethod
    def elements(self, array: Any) -> ColumnElement[str]:
        """A row for each element of a JSON array, given as text; the elements as text."""

    @abstractmethod
    def micros(self, iso: Any) -> ColumnElement[int]:
        """The instant that an ISO 8601 text in UTC, ending in Z, stands for."""

    @abstractmethod
    def snapshot(self, connection: Connection) -> Connection:
        """The connection, whose next transactions each see the store as it is when they begin, writers or not."""

    @abstractmethod
    def members(self, document: Any, name: str) -> ColumnElement[str]:
        """The texts of a list in a `json` document, each in a row of its own; no row where it is absent."""

    @staticmethod
    def json_text(value: Any) -> ColumnElement[str]:
        """A text as a JSON text, escaped as needs be; null stays null."""
        return cast(func.to_json(value), Text)

    @abstractmethod
    def json_object(self, **members: Any) -> ColumnElement[Any]:
        """A JSON object of SQL values."""

    @abstractmethod
    def json_merged(self, document: Any, more: Any) -> ColumnElement[str]:
        """A JSON text with the members of a `json_object` put in, but for those that are null."""

    @staticmethod
    def number(value: Any) -> ColumnElement[float]:
        """A text as a double."""
        return cast(value, Double)

    @abstractmethod
    def timestamp(self, micros: Any) -> ColumnElement[Any]:
        """An instant as TIMESTAMPTZ."""

    @abstractmethod
    def day(self, micros: Any) -> ColumnElement[Any]:
        """The UTC day of an instant, as DATE, whatever the session's time zone."""

    @abstractmethod
    def octets(self, text: Any) -> ColumnElement[int]:
        """How many bytes a text has in UTF-8."""

    @abstractmethod
    def now(self) -> ColumnElement[int]:
        """The database's clock as an instant."""

    @abstractmethod
    def lock_schema(self, connection: Connection) -> None:
        """Keeps other migrations out until the transaction ends."""

    @abstractmethod
    def denied(self, error: DBAPIError) -> bool:
        """Whether a statement failed for want of a right."""

    @abstractmethod
    def unreadable(self, error: DBAPIError) -> bool:
        """Whether a statement failed on a value, such as a text that is no JSON."""

    @abstractmethod
    def no_scrub(self, connection: Connection) -> str | None:
        """Why `scrub` cannot be done now, and what to do; None where it can."""

    @abstractmethod
    def scrub(self) -> None:
        """Takes deleted bytes out of the files. DuckDB rewrites the file, PostgreSQL the table of contents."""

    @abstractmethod
    def lock_clause(self, select: Any, *, skip: bool = False) -> Any:
        """The select that locks the rows it reads until the transaction ends; with `skip` it leaves out locked ones."""

    @abstractmethod
    def session(self, connection: Connection) -> str | None:
        """What tells a connection from all others of the database; None where there can be no other."""

    @abstractmethod
    def end_when_idle(self, connection: Connection, micros: int) -> None:
        """Has the database end this transaction, and its connection, when nothing is asked in it for so long."""

    @abstractmethod
    def session_gone(self, connection: Connection, session: str | None) -> bool:
        """Whether the connection of that name is certainly gone."""

    @abstractmethod
    def fence(self, select: Any) -> Any:
        """The select as a subquery whose expressions are computed once, however often they are used above it."""

    def expect_questions(self) -> None:  # noqa: B027 - most need nothing for it
        """Gets ready for queries to `selected`, where that takes time."""

    @contextmanager
    def many_rows(self, connection: Connection) -> Iterator[None]:
        """While it lasts, joins are planned as of many rows, whatever is known of a table that was just filled."""
        del connection
        yield

    @abstractmethod
    def problems(self, connection: Connection) -> Iterator[str]:
        """What an operator should know of the set-up of this database."""

    @abstractmethod
    def damaged_indexes(self, connection: Connection) -> Iterator[str]:
        """Which indexes do not find as many rows as their table has, with both counts."""

    def as_text(self, column: ColumnElement[Any]) -> ColumnElement[str]:
        """A column in the canonical text of the log's hash: scores as integer 10⁻⁹, bytes as hexadecimal."""
        if isinstance(column.type, Double):
            return cast(cast(func.floor(column * literal(1e9, Double) + literal(0.5, Double)), BigInteger), Text)
        if isinstance(column.type, LargeBinary):
            return self.hex(column)
        if isinstance(column.type, Boolean):
            return case((column, "true"), else_="false")
        return column if isinstance(column.type, Text) else cast(column, Text)

    @staticmethod
    def decimal(score: Any) -> ColumnElement[str]:
        """A score in [0, 1] as a JSON number of nine decimals, the same text on both databases."""
        scaled = cast(func.floor(score * literal(1e9, Double) + literal(0.5, Double)), BigInteger)
        return case((score >= 1, "1"), else_=func.concat("0.", func.lpad(cast(scaled, Text), 9, "0"), type_=Text))

    @staticmethod
    def real(number: Any) -> ColumnElement[str]:
        """A number from 10⁻⁴ to 10¹⁵ as JSON text that reads back as the same double: what Python writes."""
        whole = func.concat(cast(cast(number, BigInteger), Text), ".0", type_=Text)
        return case((number == func.floor(number), whole), else_=cast(number, Text))

    def uuid8(self, text: Any) -> ColumnElement[Any]:
        """`model.identity.uuid8` of an already joined text."""
        digest = self.digest(self.utf8(text))
        return cast(
            func.concat(
                func.substr(digest, 1, 8),
                "-",
                func.substr(digest, 9, 4),
                "-8",
                func.substr(digest, 14, 3),
                "-8",
                func.substr(digest, 18, 3),
                "-",
                func.substr(digest, 21, 12),
            ),
            Uuid,
        )
