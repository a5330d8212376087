"""`ebb serve`: the HTTP API and the dashboard, and on demand the schedule beside them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Annotated

import typer

from ebbtide.cli.options import Url, opened
from ebbtide.cli.settings import read
from ebbtide.model.errors import BadInput, NotInstalled


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(serve)


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Its port; 0 takes a free one")] = 8300,
    with_organiser: Annotated[bool, typer.Option("--with-organiser", help="Run the schedule, too")] = False,
    every: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds between its wake-ups [default: 60]", show_default=False)
    ] = None,
    insecure_local: Annotated[
        bool, typer.Option("--insecure-local", help="Ask for no token; on a loopback address only")
    ] = False,
    url: Url = None,
) -> None:
    """Serve the HTTP API and the dashboard until stopped; SIGTERM finishes what is in hand.

    Example: ebb serve --with-organiser
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise NotInstalled("it needs FastAPI and uvicorn: pip install 'ebbtide[serve]'", field="serve")
    # Only here, since no other command needs them and they take half a second to load.
    import structlog  # noqa: PLC0415

    from ebbtide.organise.daemon import beside  # noqa: PLC0415
    from ebbtide.service import logs  # noqa: PLC0415
    from ebbtide.service.http.app import application  # noqa: PLC0415
    from ebbtide.service.http.server import LOOPBACK, Server, listening, until_told  # noqa: PLC0415
    from ebbtide.service.watch import Watch  # noqa: PLC0415

    if insecure_local and host not in LOOPBACK:
        raise BadInput(f"with --insecure-local it is one of {', '.join(LOOPBACK)}, not {host}", field="host")
    every = read().every if every is None else every
    with ExitStack() as held:
        ebb = held.enter_context(opened(url))
        # A store that is not set up is said at once, not to whoever comes first.
        with ebb.store.begin():
            pass
        watch = Watch(every=every, counts=True) if with_organiser else None
        server = Server(application(ebb, insecure=insecure_local, watch=watch))
        listener = held.enter_context(listening(host, port))
        logs.configure()
        held.enter_context(until_told(server.stop))
        if watch is not None:

            def one_pass(stopping: Callable[[], bool]) -> None:
                with watch.one_pass():
                    ebb.store.look_again()
                    ebb.organise(stopping=stopping, told=watch)
                    watch.stands(ebb.standing())

            held.enter_context(beside(one_pass, every=every, failed=server.stop))
        at = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        structlog.get_logger().info("serving", at=at, tokens=not insecure_local)
        server.run(sockets=[listener])
