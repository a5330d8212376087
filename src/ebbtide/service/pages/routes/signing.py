"""Signing in and out, and the files that pages are made up with."""

from __future__ import annotations

from importlib.resources import files

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ebbtide.access.rights import Right
from ebbtide.model.errors import EbbtideError
from ebbtide.service.http.access import Service
from ebbtide.service.http.problems import status_of
from ebbtide.service.pages import rendering
from ebbtide.service.pages.sessions import COOKIE
from ebbtide.service.pages.visit import HEADERS, Pages, Visit, local, refuse_foreign, set_cookie

_FILES = {name: (files("ebbtide.service.pages") / "static" / name).read_bytes() for name in ("style.css", "wave.svg")}
_KINDS = {"css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_WRONG = "This token opens nothing here: it is unknown, or it has ended."


def add(pages: Pages) -> None:
    """Adds the routes."""

    async def style(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return Response(status_code=404)
        kept = {**HEADERS, "Cache-Control": "max-age=300"}
        return Response(_FILES[name], media_type=_KINDS[name.rpartition(".")[2]], headers=kept)

    async def ask(request: Request) -> Response:
        service: Service = request.app.state.service
        if service.insecure:
            return RedirectResponse("/", 303, HEADERS)
        return _form(request.query_params.get("next", "/"))

    async def sign_in(request: Request) -> Response:
        form = await request.form()
        token, where = (str(form.get(name, "")).strip() for name in ("token", "next"))
        return await run_in_threadpool(_signed_in, pages, request, token, where)

    pages.router.add_route("/static/{name}", style, methods=["GET"], include_in_schema=False)
    pages.router.add_route("/login", ask, methods=["GET"], include_in_schema=False)
    pages.router.add_route("/login", sign_in, methods=["POST"], include_in_schema=False)

    @pages.post("/logout", Right.READ)
    def sign_out(visit: Visit) -> Response:
        pages.sessions.close(visit.request.cookies.get(COOKIE))
        response = RedirectResponse("/login", 303, HEADERS)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def _signed_in(pages: Pages, request: Request, token: str, where: str) -> Response:
    service: Service = request.app.state.service
    try:
        refuse_foreign(request)
        who = service.ebb.principal(token) if token else None
    except EbbtideError as error:
        return _form(where, error.message, status_of(error))
    if who is None:
        return _form(where, _WRONG, 401)
    pages.sessions.close(request.cookies.get(COOKIE))
    name, _ = pages.sessions.open(token)
    response = RedirectResponse(where if local(where) else "/", 303, HEADERS)
    set_cookie(request, response, name)
    return response


def _form(where: str, wrong: str = "", status: int = 200) -> Response:
    html = rendering.rendered("login.html", {"next": where if local(where) else "/", "wrong": wrong})
    return HTMLResponse(html, status, HEADERS)
