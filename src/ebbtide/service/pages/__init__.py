"""The dashboard: pages made on the server, for whoever would rather look than type."""

from ebbtide.service.pages.routes import router

__all__ = ["router"]
