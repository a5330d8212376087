"""Logs: one JSON document a line on standard error, or coloured text where that is a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure() -> None:
    """Sets logging up for this process, also that of the libraries it uses."""
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    terminal = sys.stderr.isatty()
    shown: list[Any] = [structlog.dev.ConsoleRenderer()]
    if not terminal:
        shown = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *shown],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    # At every wake-up it says that there was one.
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    # No comparison of what another organiser is told by its own migrations.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    structlog.configure(
        processors=[*common, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
