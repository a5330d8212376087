"""`ebb`: every command, its options and its help. Nothing is decided here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Any, BinaryIO

import typer
from pydantic import ValidationError
from typer.exceptions import TyperException

from ebbtide import __version__
from ebbtide.cli import (
    act,
    audit,
    bench,
    daemon,
    explain,
    fit,
    follow,
    mcp,
    output,
    pack,
    policy,
    proof,
    replay,
    runs,
    serve,
    sql,
    tell,
    token,
)
from ebbtide.cli.options import (
    Actor,
    AsOf,
    KnownAt,
    Namespace,
    Object,
    OneNamespace,
    Output,
    Url,
    help_without_command,
    namespace_of,
    opened,
)
from ebbtide.cli.output import Format
from ebbtide.cli.settings import read
from ebbtide.memory.ingest import Ingested
from ebbtide.memory.ranking import read_candidates
from ebbtide.model.errors import BadInput, EbbtideError, StoreUnavailable

app = typer.Typer(
    help="Ebbtide: memory that fades by rules you can read, audit and replay. "
    "Start with `ebb init`, then `ebb ingest FILE`.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

NoGuard = Annotated[bool, typer.Option("--no-guard", help="Let the guard hold nothing; the runs say so")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many, after the filter", show_default=False)]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from")]


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"ebb {__version__}\n")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    debug: Debug = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version")] = False,
) -> None:
    del debug, version
    help_without_command(context)


# The store


@app.command()
def init(url: Url = None, format: Output = Format.TABLE) -> None:
    """Create the store, or bring it up to date.

    Example: ebb init --url duckdb:///memory.duckdb
    """
    _migrate(url, format)


@app.command()
def migrate(url: Url = None, format: Output = Format.TABLE) -> None:
    """Bring the store up to date with this version; twice changes nothing.

    Example: ebb migrate --url postgresql://ebb@db/memory
    """
    _migrate(url, format)


def _migrate(url: str | None, format: Format) -> None:
    with opened(url) as ebb:
        before, after = ebb.init()
        if format == Format.JSON:
            output.document({"url": _without_password(ebb), "before": before, "after": after})
        elif before == after:
            sys.stdout.write(f"{_without_password(ebb)} is at migration {after} already\n")
        else:
            sys.stdout.write(f"{_without_password(ebb)} is at migration {after}\n")


def _without_password(ebb: Any) -> str:
    return str(ebb.store.db.engine().url.render_as_string(hide_password=True))


@app.command()
def doctor(url: Url = None, format: Output = Format.TABLE) -> None:
    """Say what is wrong with the store or its set-up; exit code 1 if anything is.

    Example: ebb doctor
    """
    with opened(url) as ebb:
        problems = ebb.problems()
        if format == Format.JSON:
            output.document({"ok": not problems, "problems": problems})
        else:
            sys.stdout.write("".join(f"- {problem}\n" for problem in problems) or "All is well.\n")
    if problems:
        raise typer.Exit(1)


@app.command()
def ingest(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="JSON Lines; - is standard input")],
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Leave out what cannot be taken, and say so")
    ] = False,
    walk: Annotated[
        bool, typer.Option("--walk", help="Live through the history: run what is due between lines")
    ] = False,
    no_guard: NoGuard = False,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Take in events, memories and what was asked of them; all of a file or nothing.

    Example: ebb ingest --walk examples/maya.jsonl
    """
    total = Ingested()
    with opened(url) as ebb:
        for file in files:
            with ExitStack() as stack, output.progress(f"ingest {file}") as report:
                source = _source(file, stack)
                done = ebb.ingest(source, file, keep_going=keep_going, walk=walk, no_guard=no_guard, progress=report)
            total.appended += done.appended
            total.unchanged += done.unchanged
            total.refused += done.refused
    for error in total.refused:
        _say(error)
    if format == Format.JSON:
        output.document({"appended": total.appended, "unchanged": total.unchanged, "refused": len(total.refused)})
    else:
        sys.stdout.write(
            f"{total.appended} entries appended, {total.unchanged} lines unchanged, {len(total.refused)} refused\n"
        )
    if total.refused:
        raise typer.Exit(1)


def _source(file: str, stack: ExitStack) -> BinaryIO:
    if file == "-":
        return sys.stdin.buffer
    try:
        return stack.enter_context(open(file, "rb"))
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=file) from error


# Time


@app.command()
def organise(
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be repeated", show_default=False)] = None,
    namespace: OneNamespace = None,
    as_of: AsOf = None,
    from_: Annotated[str | None, typer.Option("--from", help="Walk every slot from here …", show_default=False)] = None,
    to: Annotated[str | None, typer.Option("--to", help="… to here [default: now]", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and write nothing")] = False,
    show: Annotated[
        int | None,
        typer.Option(min=0, help="With --dry-run: so many of its entries", show_default=False),
    ] = None,
    no_guard: NoGuard = False,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Run what is due, once; or walk the schedule through a span of time.

    Example: ebb organise --from 2026-01-01T00:00:00Z --to 2026-03-01T00:00:00Z
    """
    if show is not None and not (dry_run and from_ is None and to is None):
        raise BadInput("--show tells what a dry run would write: add --dry-run, or look at `ebb history`", field="show")
    with opened(url) as ebb, output.progress("organise") as report:
        if show is not None:
            rehearsed = ebb.rehearse(tasks=task, namespace=namespace, as_of=as_of, no_guard=no_guard, limit=show)
            found = rehearsed.runs
        elif from_ is None and to is None:
            found = ebb.organise(tasks=task, namespace=namespace, as_of=as_of, dry_run=dry_run, no_guard=no_guard)
        elif dry_run or as_of:
            raise BadInput("--from and --to walk and write: leave out --dry-run and --as-of", field="from")
        elif from_ is None:
            raise BadInput("--to needs --from", field="from")
        else:
            found = ebb.walk(from_, to, tasks=task, namespace=namespace, no_guard=no_guard, progress=report)
    if format == Format.JSON:
        more = {} if show is None else output.decisions_document(rehearsed)
        output.document({"runs": [output.run_document(run) for run in found]} | more)
    elif not found:
        sys.stdout.write("Nothing is due.\n")
    else:
        busy = [run for run in found if run.status != "nothing_due"]
        output.runs(busy or found, "Would be done" if dry_run else "Done")
        if busy and len(busy) < len(found):
            sys.stdout.write(f"({len(found) - len(busy)} more runs found nothing due)\n")
        output.say_waiting(found)
        if show is not None:
            output.decisions(rehearsed)


daemon.register(app)
serve.register(app)


@app.command()
def status(
    namespace: OneNamespace = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Memories by state and profile, and each task's last and next run.

    Example: ebb status --format json
    """
    with opened(url) as ebb:
        found = ebb.status(namespace=namespace, as_of=as_of, known_at=known_at)
    if format == Format.JSON:
        output.document(found)
        return
    numbers = ("objects", "warned", "pinned")
    output.table(
        "Memories",
        ("namespace", "state", "profile", *numbers),
        ((c.namespace_id, c.lifecycle_state, c.decay_profile, c.objects, c.warned, c.pinned) for c in found.counts),
        numbers=numbers,
    )
    output.table(
        "Schedule (UTC)",
        ("namespace", "task", "policy", "last slot", "status", "next slot"),
        ((t.namespace_id, t.task, t.policy, t.last_run, t.last_status, t.next_run) for t in found.tasks),
    )


# Erasure


@app.command()
def erase(
    objects: Annotated[list[str] | None, typer.Argument(metavar="OBJ…", help="Memories by id or ref")] = None,
    subject: Annotated[str | None, typer.Option(help="All of this subject", show_default=False)] = None,
    namespace: Namespace = None,
    reason: Annotated[str, typer.Option(help="user_request or compliance")] = "user_request",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    no_scrub: Annotated[bool, typer.Option("--no-scrub", help="Leave the files to `ebb scrub`")] = False,
    actor: Actor = None,
    url: Url = None,
    format: Output = Format.JSON,
) -> None:
    """Erase memories, all of a subject, or a whole namespace, after showing what would go. Prints a receipt.

    Example: ebb erase --subject maya --namespace home > receipt.json
    """
    if not objects and subject is None and namespace is None:
        raise BadInput("name what to erase: OBJ…, --subject, or --namespace for all of it", field="OBJ")
    del format  # A receipt is a document.
    where = namespace_of(namespace)
    what: dict[str, Any] = {"subject": subject, "namespace": where, "reason": reason, "actor": actor or read().actor}
    what["everything"] = not objects and subject is None
    with opened(url) as ebb:
        preview = ebb.erase(*objects or (), preview=True, **what)
        gone, kept = preview.erased, preview.kept
        sys.stderr.write(
            f"{where}: {gone.objects} memories, {gone.events} events and {gone.contents} contents would go; "
            f"{kept.objects} memories and {kept.events} events stay.\n"
        )
        if not yes and not _confirmed("Erase them for good? [y/N] "):
            raise BadInput("not confirmed: nothing was erased (--yes skips the question)", field="yes")
        output.document(ebb.erase(*objects or (), scrub=not no_scrub, **what))


def _confirmed(question: str) -> bool:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@app.command()
def scrub(url: Url = None) -> None:
    """Take the bytes of what was erased out of the database's files.

    Example: ebb scrub
    """
    with opened(url) as ebb:
        ebb.scrub()
    sys.stdout.write("scrubbed\n")


# Reading


@app.command("list")
def list_(
    all_: Annotated[bool, typer.Option("--all", help="Also what is not eligible for retrieval, and why")] = False,
    limit: Limit = None,
    namespace: Namespace = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Current memory, most salient first: what is eligible for retrieval, or all of it.

    Example: ebb list --all --as-of 2026-01-01T00:00:00Z
    """
    name = namespace_of(namespace)
    with opened(url) as ebb:
        found = ebb.memories(namespace=name, as_of=as_of, known_at=known_at, everything=all_, limit=limit)
    if format == Format.JSON:
        output.document({"memories": found})
    else:
        output.memories(found, f"{len(found)} {'memories' if all_ else 'eligible memories'} in {name}")


@app.command()
def show(
    obj: Object,
    namespace: Namespace = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """One memory with all that is known of it.

    Example: ebb show home-1 --namespace maya
    """
    with opened(url) as ebb:
        found = ebb.memory(obj, namespace=namespace_of(namespace), as_of=as_of, known_at=known_at)
    if format == Format.JSON:
        output.document(found)
        return
    fields = found.model_dump()
    output.table(
        str(found.value or found.ref or found.id),
        ("field", "value"),
        ((k, v) for k, v in fields.items() if v not in (None, [])),
    )


@app.command()
def rank(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help='JSON Lines {"object", "similarity"}; - is standard input')
    ],
    limit: Limit = None,
    namespace: Namespace = None,
    as_of: AsOf = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Order what your own search found: the eligible ones with their effective scores, best first.

    Example: echo '{"object": "home-5", "similarity": 0.9}' | ebb rank - --namespace maya
    """
    with ExitStack() as stack:
        candidates = list(read_candidates(_source(file, stack), file))
    with opened(url) as ebb:
        found = ebb.rank(candidates, namespace=namespace_of(namespace), as_of=as_of, limit=limit)
    if format == Format.JSON:
        output.document(found)
        return
    output.table(
        f"{len(found.ranked)} of {len(candidates)}",
        ("ref", "value", "score", "similarity", "salience"),
        ((r.memory.ref or r.memory.id, r.memory.value, r.score, r.similarity, r.memory.salience) for r in found.ranked),
        numbers=("score", "similarity", "salience"),
        cut="value",
    )
    if found.withheld:
        output.table("Withheld", ("object", "why"), ((one.object, one.reason) for one in found.withheld))


@app.command()
def history(
    obj: Object,
    namespace: Namespace = None,
    known_at: KnownAt = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """The entries of one memory, oldest first.

    Example: ebb history home-1 --namespace maya --format json
    """
    with opened(url) as ebb:
        found = ebb.history(obj, namespace=namespace_of(namespace), known_at=known_at)
    if format == Format.JSON:
        output.document({"entries": found})
        return
    output.table(
        f"{len(found)} entries",
        ("seq", "effective at", "op", "actor", "state", "salience", "conf.", "policy", "what"),
        (
            (
                e.seq,
                e.effective_at,
                e.op_type,
                e.actor_id,
                e.lifecycle_state,
                e.salience,
                e.confidence,
                e.policy,
                _gist(e.payload),
            )
            for e in found
        ),
        numbers=("seq", "salience", "conf."),
    )


def _gist(payload: Any) -> str:
    words = ("signal_type", "reason", "thresholds_triggered", "new_object_id", "late")
    return " ".join(str(payload[word] if word != "late" else "late") for word in words if word in payload)


act.register(app)
tell.register(app)
pack.register(app)
proof.register(app)
replay.register(app)
follow.register(app)
mcp.register(app)
explain.register(app)
sql.register(app)
app.add_typer(audit.app, name="audit")
bench.register(app)
fit.register(policy.app)
app.add_typer(policy.app, name="policy")
app.add_typer(runs.app, name="runs")
app.add_typer(token.app, name="token")


# Errors


def _say(error: EbbtideError) -> None:
    wants_json = "--format=json" in sys.argv or ("--format" in sys.argv and "json" in sys.argv)
    line = json.dumps(error.document(), ensure_ascii=False) if wants_json else f"ebb: {error}"
    sys.stderr.write(output.printable(line) + "\n")


def run() -> None:
    """Runs the command line and exits: 0 done, 1 a check found something, 2 bad input, 3 store, 4 refused."""
    sys.exit(_run(app))


def _run(command: Callable[..., Any]) -> int:
    try:
        result = command(standalone_mode=False)
    except EbbtideError as error:
        if "--debug" in sys.argv:
            raise
        _say(error)
        return error.exit_code
    except ValidationError as error:
        # Input is refused where it is read; what is left is what another version, or another hand, wrote.
        if "--debug" in sys.argv:
            raise
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or None
        _say(
            StoreUnavailable(
                f"the store has a {error.title} that this version cannot read: {first['msg']}", field=field
            )
        )
        return StoreUnavailable.exit_code
    except TyperException as error:
        _say(BadInput(str(getattr(error, "format_message", error.__str__)())))
        return 2
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130
    return result if isinstance(result, int) else 0
