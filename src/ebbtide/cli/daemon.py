"""`ebb daemon`: the schedule, with its logs, metrics and health."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from ebbtide.cli.options import OneNamespace, Url, opened
from ebbtide.cli.settings import read


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(daemon)


def daemon(
    every: Annotated[
        float | None, typer.Option(help="Seconds between wake-ups [default: 60]", show_default=False)
    ] = None,
    namespace: OneNamespace = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve /metrics and /health here [default: off]", show_default=False),
    ] = None,
    metrics_host: Annotated[
        str | None, typer.Option(help="… at this address [default: 127.0.0.1]", show_default=False)
    ] = None,
    url: Url = None,
) -> None:
    """Run the schedule until stopped; SIGTERM finishes the chunk in hand.

    Example: ebb daemon --every 60 --metrics-port 9464
    """
    # Only here, since no other command needs them and they take a tenth of a second to load.
    from ebbtide.organise import daemon as alarm  # noqa: PLC0415
    from ebbtide.service import logs, port  # noqa: PLC0415
    from ebbtide.service.watch import Watch  # noqa: PLC0415

    settings = read()
    logs.configure()
    every = settings.every if every is None else every
    where = settings.metrics_port if metrics_port is None else metrics_port
    watch = Watch(every=every, counts=where is not None)
    with ExitStack() as held:
        ebb = held.enter_context(opened(url))
        said: dict[str, Any] = {}
        if where is not None:
            host = metrics_host or settings.metrics_host
            said = {"metrics_host": host, "metrics_port": held.enter_context(port.listening(watch, host, where))}

        def one_pass(stopping: Callable[[], bool]) -> None:
            with watch.one_pass():
                ebb.store.look_again()
                ebb.organise(namespace=namespace, stopping=stopping, told=watch)
                if watch.counts:
                    watch.stands(ebb.standing())

        alarm.daemon(one_pass, every=every, **said)
