"""The routes of the dashboard, a module a subject."""

from __future__ import annotations

import threading

from fastapi import APIRouter

from ebbtide.service.pages import pictures
from ebbtide.service.pages.routes import audit, corrections, memories, overview, policies, runs, signing
from ebbtide.service.pages.sessions import Sessions
from ebbtide.service.pages.visit import Pages


def router() -> APIRouter:
    """All routes; the application that takes them has its `Service` in its state."""
    found = APIRouter()
    threading.Thread(target=pictures.warm, daemon=True).start()
    pages = Pages(found, Sessions())
    for module in (signing, overview, memories, runs, policies, corrections, audit):
        module.add(pages)
    return found
