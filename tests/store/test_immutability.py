"""PostgreSQL: the owner cannot change the log by accident, and the role the service runs as not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from ebbtide import Ebbtide, Refused
from ebbtide.model.errors import BadInput, StoreUnavailable
from ebbtide.store.tables import metadata

APPEND_ONLY = ("event_log", "batches", "refusals")
CHANGES = {
    "update": "UPDATE {table} SET namespace_id = namespace_id",
    "update of nothing": "UPDATE {table} SET namespace_id = namespace_id WHERE false",
    "delete": "DELETE FROM {table}",
    "delete of nothing": "DELETE FROM {table} WHERE false",
    "truncate": "TRUNCATE {table}",
    "truncate cascade": "TRUNCATE {table} CASCADE",
    "truncate among others": "TRUNCATE contents, {table}",
    "upsert": "INSERT INTO {table} SELECT * FROM {table} ON CONFLICT ON CONSTRAINT {table}_pkey "
    "DO UPDATE SET namespace_id = 'other'",
    "merge": "MERGE INTO {table} t USING {table} s ON t.namespace_id = s.namespace_id WHEN MATCHED THEN DELETE",
}
BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


@pytest.fixture
def url(make_url_for) -> str:
    return make_url_for("postgresql")


@pytest.fixture
def login(url: str) -> Iterator[Callable[[str], str]]:
    """Makes a user who is a member of a role: the store's URL as that user."""
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    made: list[str] = []

    def make(role: str) -> str:
        made.append(f"user_{uuid.uuid4().hex}")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE ROLE {made[-1]} LOGIN PASSWORD 'tide' IN ROLE {role}"))
        return make_url(url).set(username=made[-1], password="tide").render_as_string(hide_password=False)

    yield make
    with engine.connect() as connection:
        for user in made:
            # A session that is still ending may still own its temporary tables.
            ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = :user"
            connection.execute(text(ended), {"user": user})
            connection.execute(text(f"DROP ROLE {user}"))
    engine.dispose()


@pytest.fixture
def filled(ebb: Ebbtide) -> Ebbtide:
    """A store with rows in each of the append-only tables."""
    ebb.ask(BELIEF | {"ref": "job", "value": "carpenter"})
    with pytest.raises(Refused):
        ebb.ask({"op": "RESTORE", "object": "job"})
    return ebb


def rows(ebb: Ebbtide, table: str) -> list[tuple]:
    with ebb.store.begin() as connection:
        return sorted(tuple(row) for row in connection.execute(text(f"SELECT t::text FROM {table} t")))


def refused(ebb: Ebbtide, statement: str, *, because: str) -> None:
    with pytest.raises(DBAPIError, match=because), ebb.store.begin() as connection:
        connection.execute(text(statement))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("table", APPEND_ONLY)
def test_the_owner_cannot_change_what_is_append_only(filled, table, change):
    """UPDATE, DELETE and TRUNCATE are refused in whatever clothes they come; every row stays as it was."""
    before = rows(filled, table)
    assert before
    refused(filled, CHANGES[change].format(table=table), because=f"{table} is append-only")
    assert rows(filled, table) == before


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_the_service_role_has_no_right_to_change_what_is_append_only(filled, login, table):
    """A member can neither change the rows nor take the protection away."""
    with Ebbtide(login("ebbtide_app")) as app:
        before = rows(app, table)
        for statement in (
            *(CHANGES[name].format(table=table) for name in ("update", "delete", "truncate")),
            f"ALTER TABLE {table} DISABLE TRIGGER ALL",
            f"DROP TRIGGER {table}_append_only ON {table}",
            f"ALTER TABLE {table} ADD COLUMN more text",
            f"DROP TABLE {table}",
            "CREATE OR REPLACE FUNCTION public.ebbtide_refuse_change() RETURNS trigger LANGUAGE plpgsql "
            "AS 'BEGIN RETURN NULL; END'",
        ):
            refused(app, statement, because="permission denied|must be owner")
        refused(app, "SET session_replication_role = replica", because="permission denied")
        assert rows(app, table) == before


def test_the_service_role_has_exactly_the_rights_it_needs(filled):
    """SELECT and INSERT on what is append-only, and on no table TRUNCATE, REFERENCES or TRIGGER."""
    statement = text("""
        SELECT t.tablename, p.name FROM pg_tables t,
          unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE','TRUNCATE','REFERENCES','TRIGGER']) p (name)
        WHERE t.schemaname = 'public' AND has_table_privilege('ebbtide_app', 'public.' || t.tablename, p.name)
    """)
    with filled.store.begin() as connection:
        rights: dict[str, set[str]] = {}
        for table, right in connection.execute(statement):
            rights.setdefault(table, set()).add(right)
    append, work = {"SELECT", "INSERT"}, {"SELECT", "INSERT", "UPDATE", "DELETE"}
    assert rights.pop("alembic_version") == {"SELECT"}
    assert rights == {name: append if name in APPEND_ONLY else work for name in metadata.tables}


@pytest.mark.parametrize("role", ["ebbtide_app", "ebbtide_auditor"])
def test_the_roles_own_nothing(filled, role):
    """Whoever owns a table can disable its triggers; neither role may log in or has any power of its own."""
    with filled.store.begin() as connection:
        owned = "SELECT count(*) FROM pg_shdepend WHERE refobjid = CAST(:role AS regrole) AND deptype = 'o'"
        assert connection.execute(text(owned), {"role": role}).scalar() == 0
        powers = text(
            "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolcanlogin OR rolreplication "
            "OR rolbypassrls FROM pg_roles WHERE rolname = :role"
        )
        assert connection.execute(powers, {"role": role}).scalar() is False


def test_the_service_role_can_do_a_whole_unit_of_work(url, login, clock):
    """Assert, reinforce, a refusal, passes and a reading need no more than membership of ebbtide_app."""
    with Ebbtide(login("ebbtide_app"), clock=clock) as app:
        app.ask({"op": "EVENT", "ref": "m1", "content": "I am a carpenter."})
        app.ask(BELIEF | {"ref": "job", "value": "carpenter", "evidence": ["m1"]})
        app.ask({"op": "REINFORCE", "object": "job", "signal": "CONFIRMED"})
        with pytest.raises(Refused):
            app.ask({"op": "RESTORE", "object": "job"})
        clock.forward(days=30)
        assert sum(run.decayed for run in app.organise()) == 1
        assert [memory.ref for memory in app.memories()] == ["job"]
        assert len(rows(app, "refusals")) == 1


@pytest.mark.parametrize("table", [*metadata.tables, "alembic_version"])
def test_the_auditor_reads_no_table(filled, login, table):
    """Auditors read the views of schema audit; the tables beneath, contents above all, are closed to them."""
    engine = create_engine(make_url(login("ebbtide_auditor")).set(drivername="postgresql+psycopg"))
    with pytest.raises(DBAPIError, match="permission denied"), engine.begin() as connection:
        connection.execute(text(f"SELECT * FROM public.{table}"))
    engine.dispose()


def test_the_auditor_may_look_into_the_schema_of_views(filled):
    usage = "SELECT has_schema_privilege('ebbtide_auditor', 'audit', 'USAGE')"
    create = "SELECT has_schema_privilege('ebbtide_auditor', 'audit', 'CREATE')"
    with filled.store.begin() as connection:
        assert connection.execute(text(usage)).scalar() is True
        assert connection.execute(text(create)).scalar() is False


def test_the_auditor_reads_every_view(filled, login):
    """What auditors are for: all of schema audit, and only by reading."""
    engine = create_engine(make_url(login("ebbtide_auditor")).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        named = text("SELECT viewname FROM pg_views WHERE schemaname = 'audit'")
        views = connection.execute(named).scalars().all()
        assert "memories" in views
        for view in views:
            connection.execute(text(f"SELECT * FROM audit.{view}"))
        rows_seen = connection.execute(text("SELECT count(*) FROM audit.memories")).scalar()
    engine.dispose()
    assert rows_seen == 1


def test_an_auditor_sees_the_views_and_nothing_else_and_writes_nothing(filled, login):
    """Whatever a member names: tables, functions, new tables; and what the catalogue lists for it."""
    engine = create_engine(make_url(login("ebbtide_auditor")).set(drivername="postgresql+psycopg"))
    for statement in (
        "INSERT INTO audit.refusals (rule) VALUES ('none')",
        "INSERT INTO audit.namespaces SELECT * FROM audit.namespaces",
        "UPDATE audit.memories SET ref = 'x'",
        "DELETE FROM audit.operations",
        "DELETE FROM audit.batches",
        "TRUNCATE public.event_log",
        "CREATE TABLE audit.mine (x integer)",
        "CREATE TABLE public.mine (x integer)",
        "CREATE VIEW audit.mine AS SELECT 1",
        "CREATE OR REPLACE VIEW audit.batches AS SELECT 1",
        "CREATE FUNCTION audit.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "CREATE SCHEMA mine",
        "DROP VIEW audit.memories",
        "ALTER VIEW audit.memories RENAME TO mine",
        "LOCK TABLE public.event_log",
        "COPY audit.memories TO PROGRAM 'cat'",
        "COPY audit.memories TO '/tmp/stolen'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT query_to_xml('SELECT * FROM public.contents', true, true, '')",
        "SET ROLE ebbtide_app",
        "ALTER ROLE ebbtide_auditor SUPERUSER",
        "GRANT SELECT ON public.contents TO PUBLIC",
    ):
        with pytest.raises(DBAPIError, match=r"permission denied|must be owner|cannot (?:insert|update|delete)"):
            _execute(engine, statement)
    with engine.connect() as connection:
        mine = text("""
            SELECT table_schema FROM information_schema.tables
            WHERE table_schema NOT IN ('pg_catalog', 'information_schema') GROUP BY table_schema
        """)
        assert connection.execute(mine).scalars().all() == ["audit"]
        columns = text("SELECT count(*) FROM information_schema.columns WHERE table_name = 'contents'")
        assert connection.execute(columns).scalar() == 0
        writable = text("""
            SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, unnest(ARRAY[
                'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS right_of
            WHERE n.nspname IN ('audit', 'public') AND c.relkind IN ('r', 'v')
                AND has_table_privilege(c.oid, right_of)
        """)
        assert connection.execute(writable).all() == []
    engine.dispose()


def _execute(engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(statement))


@pytest.mark.parametrize("role", ["ebbtide_app", "ebbtide_auditor"])
def test_ebb_sql_asks_as_an_auditor_whoever_connects(filled, login, role):
    """With the rights of the views alone, and back in its own afterwards."""
    with Ebbtide(login(role)) as member:
        assert member.sql("SELECT ref, current_user AS me FROM memories").rows == [["job", "ebbtide_auditor"]]
        with pytest.raises(BadInput, match="permission denied for table event_log"):
            member.sql("SELECT count(*) FROM public.event_log")
        with member.store.db.connect() as connection:
            assert connection.execute(text("SELECT current_user = session_user")).scalar() is True


def test_who_may_not_be_an_auditor_is_told_so(filled, login):
    with Ebbtide(login("pg_monitor")) as stranger, pytest.raises(StoreUnavailable, match="GRANT ebbtide_auditor TO"):
        stranger.sql("SELECT 1")
