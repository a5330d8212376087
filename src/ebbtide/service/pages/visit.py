"""A visit: one request of a browser, with who is signed in, what they may do, and the page that they get."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ebbtide.access.rights import Right
from ebbtide.access.tokens import Principal
from ebbtide.api import Ebbtide
from ebbtide.model.errors import EbbtideError, NotFound
from ebbtide.service.http.access import LOCAL, Service
from ebbtide.service.http.problems import Forbidden, Unauthorised, status_of
from ebbtide.service.pages import rendering
from ebbtide.service.pages.sessions import COOKIE, Session, Sessions

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    # Not `no-referrer`: a form's request has to say where it comes from.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Actor(TypedDict):
    """Who asks, as the arguments of requests have it."""

    actor: str
    actor_type: str


@dataclass
class Visit:
    """One request. `namespace` is what its page speaks of; None where the store has none yet."""

    request: Request
    ebb: Ebbtide
    session: Session
    who: Principal
    form: Mapping[str, str]
    began: float = field(default_factory=time.perf_counter)
    namespace: str = ""
    namespaces: list[str] = field(default_factory=list)

    def settle(self) -> None:
        """Finds the namespace: the token's own, or the one asked for, or the first there is.

        Any other than a token's own is as if it was not there.
        """
        asked = self.asked("namespace") or None
        if asked is not None and not self.who.reaches(asked):
            raise NotFound(f"there is no namespace {asked!r}", field="namespace")
        if self.who.namespace is not None:
            self.namespace, self.namespaces = self.who.namespace, [self.who.namespace]
            return
        self.namespaces = sorted(head.namespace_id for head in self.ebb.digest().heads)
        if asked is not None and asked not in self.namespaces:
            raise NotFound(f"there is no namespace {asked!r}", field="namespace")
        first = "default" if "default" in self.namespaces else next(iter(self.namespaces), "default")
        self.namespace = asked or first

    def asked(self, name: str) -> str:
        """What a form or the address says of a field; empty where nothing."""
        found = self.form.get(name) or self.request.query_params.get(name) or ""
        return found.strip() if isinstance(found, str) else ""

    def may(self, right: str) -> bool:
        """Whether who is signed in has a right."""
        return self.who.may(Right(right))

    def link(self, path: str, /, **query: Any) -> str:
        """An address of the dashboard that stays in the namespace."""
        if self.who.namespace is None:
            query = {"namespace": self.namespace, **query}
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return quote(path) + (f"?{urlencode(given)}" if given else "")

    @property
    def now(self) -> datetime:
        """The store's clock."""
        return self.ebb.now()

    @property
    def actor(self) -> Actor:
        """Who stands in the log for what is asked."""
        return Actor(actor=self.who.actor, actor_type=self.who.actor_type.value)

    def note(self, kind: str, said: str) -> None:
        """Has the next page say something: `done` or `refused`."""
        self.session.notes.append((kind, said))


@dataclass(frozen=True)
class Page:
    """A template with what it shows."""

    template: str
    context: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


Answer = Page | Response | str
"""A page, or anything else; a text is where to go from here."""
Work = Callable[..., Answer]


class Pages:
    """Adds routes to a router: whoever is not signed in is sent to sign in, what goes wrong is told on a page."""

    def __init__(self, router: APIRouter, sessions: Sessions) -> None:
        self.router = router
        self.sessions = sessions

    def get(self, path: str, right: Right = Right.READ, *, holds: bool = True) -> Callable[[Work], Work]:
        """A page. The store is open while it is made, unless what it does needs it closed."""
        return self._route(path, "GET", right, holds)

    def post(self, path: str, right: Right) -> Callable[[Work], Work]:
        """What a form does. It has to come from a page of the same session."""
        return self._route(path, "POST", right, False)

    def _route(self, path: str, method: str, right: Right, holds: bool) -> Callable[[Work], Work]:
        def add(work: Work) -> Work:
            async def endpoint(request: Request) -> Response:
                form = await request.form() if method == "POST" else FormData()
                return await run_in_threadpool(self._answer, request, form, work, right, holds)

            self.router.add_route(path, endpoint, methods=[method], include_in_schema=False)
            return work

        return add

    def _answer(self, request: Request, form: FormData, work: Work, right: Right, holds: bool) -> Response:
        service: Service = request.app.state.service
        session, fresh = self._session(request, service)
        if session is None:
            return self._to_sign_in(request)
        texts = {name: value for name, value in form.items() if isinstance(value, str)}
        visit = Visit(request, service.ebb, session, LOCAL, texts)
        try:
            with service.ebb.store.session() if holds else nullcontext():
                self._admit(visit, service, right)
                answer = work(visit, **request.path_params)
        except Unauthorised:
            self.sessions.close(request.cookies.get(COOKIE))
            return self._to_sign_in(request)
        except EbbtideError as error:
            answer = self._refused(visit, error)
        response = self._response(visit, answer)
        if fresh is not None:
            set_cookie(request, response, fresh)
        return response

    def _session(self, request: Request, service: Service) -> tuple[Session | None, str | None]:
        """The session of a request, and its id where it is new: who needs no token gets one for the asking."""
        session = self.sessions.find(request.cookies.get(COOKIE))
        if session is not None and (session.token is not None or service.insecure):
            return session, None
        if not service.insecure:
            return None, None
        name, session = self.sessions.open(None)
        return session, name

    @staticmethod
    def _admit(visit: Visit, service: Service, right: Right) -> None:
        if not service.insecure:
            who = None if visit.session.token is None else service.ebb.principal(visit.session.token)
            if who is None:
                raise Unauthorised("the token has ended")
            visit.who = who
        if visit.request.method == "POST":
            refuse_foreign(visit.request)
            if not visit.session.sent(visit.form.get("csrf")):
                raise Forbidden("the form has expired: go back, load the page again and send it once more")
        visit.settle()
        if not visit.who.may(right):
            raise Forbidden(f"a {visit.who.role} may not do this: it needs the right to {right}")

    @staticmethod
    def _to_sign_in(request: Request) -> Response:
        where = "/login"
        if request.method == "GET" and request.url.path != "/":
            where += "?" + urlencode(
                {"next": request.url.path + (f"?{request.url.query}" if request.url.query else "")}
            )
        return RedirectResponse(where, 303, HEADERS)

    @staticmethod
    def _refused(visit: Visit, error: EbbtideError) -> Answer:
        """What a form asked for in vain is said where it was asked; a page that cannot be made is one that says so."""
        back = visit.form.get("back")
        status = status_of(error)
        if visit.request.method == "POST" and back and local(back) and status in (409, 412, 422):
            visit.note("refused", said_of(error))
            return back
        return Page("error.html", {"said": said_of(error), "title": _TITLES.get(status, "That went wrong")}, status)

    @staticmethod
    def _response(visit: Visit, answer: Answer) -> Response:
        if isinstance(answer, str):
            return RedirectResponse(answer, 303, HEADERS)
        if isinstance(answer, Response):
            answer.headers.update({name: value for name, value in HEADERS.items() if name not in answer.headers})
            return answer
        html = rendering.rendered(answer.template, {"visit": visit, "link": visit.link, **answer.context})
        took = f"page;dur={(time.perf_counter() - visit.began) * 1000:.1f}"
        return HTMLResponse(html, answer.status, {**HEADERS, "Server-Timing": took})


_TITLES = {
    403: "Not allowed",
    404: "Not there",
    409: "Refused",
    412: "Somebody was first",
    422: "That cannot be read",
    501: "Not installed",
    503: "The store is busy",
}


def said_of(error: EbbtideError) -> str:
    """An error in one line."""
    field_of = getattr(error, "field", None)
    return f"{field_of}: {error.message}" if field_of else error.message


def local(where: str) -> bool:
    """Whether an address is a path of this service: nothing that leads elsewhere."""
    parts = urlsplit(where)
    plain = not parts.scheme and not parts.netloc and "\\" not in where and where.isprintable()
    return plain and where.startswith("/") and not where.startswith("//")


def refuse_foreign(request: Request) -> None:
    """Refuses a form that was sent from another site, as browsers say it of every form."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    # By host alone: behind a proxy that speaks TLS for it, this service does not know the browser's scheme.
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")
    if foreign or site not in (None, "same-origin"):
        raise Forbidden("the form comes from another site")


def set_cookie(request: Request, response: Response, name: str) -> None:
    """Gives a browser its session: no script reads it, no other site sends it."""
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, name, httponly=True, samesite="strict", secure=secure, path="/")
