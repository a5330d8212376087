"""What each tool does: one call of the Python API in the caller's namespace and name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ebbtide.access.rights import Right
from ebbtide.api import Ebbtide
from ebbtide.memory.find import Filter
from ebbtide.model.errors import BadInput
from ebbtide.service.mcp import arguments as takes
from ebbtide.service.mcp.answers import Brief, Explained, Forecasted, Forgotten, Found, Kept
from ebbtide.service.mcp.caller import Caller


@dataclass(frozen=True)
class Tool:
    """A tool: what it takes, does and gives, and the right that it needs."""

    title: str
    right: Right
    takes: type[takes.Arguments]
    gives: type[BaseModel]
    act: Callable[[Ebbtide, Caller, Any], BaseModel]
    reads: bool = False
    destructive: bool = False


def _remember(ebb: Ebbtide, caller: Caller, said: takes.Remember) -> Kept:
    given = said.given() | {"value": said.value}
    return Kept.of(ebb.assert_memory(**given, **caller.asks()))


def _memories(ebb: Ebbtide, caller: Caller, said: takes.Memories) -> Found:
    given = said.given()
    wanted = Filter(**{name: given.pop(name) for name in ("text", "subject", "object_type") if name in given})
    page = ebb.find(wanted, namespace=caller.namespace, **given)
    return Found(memories=[Brief.of(memory) for memory in page.memories], next=page.next)


def _reinforce(ebb: Ebbtide, caller: Caller, said: takes.Reinforce) -> Brief:
    obj, given = _about(said)
    return Brief.of(ebb.reinforce(obj, **given, **caller.asks()))


def _correct(ebb: Ebbtide, caller: Caller, said: takes.Correct) -> Kept:
    obj, given = _about(said)
    if said.value is None:
        _refuse(given, ("epistemic_type", "source_type"), "is of a memory that takes its place: give its value too")
        return Kept.of(ebb.penalise(obj, **given, **caller.asks()))
    del given["signal"]
    return Kept.of(ebb.supersede(obj, **given, **caller.asks()))


def _pin(ebb: Ebbtide, caller: Caller, said: takes.Pin) -> Brief:
    obj, given = _about(said)
    act = ebb.pin if given.pop("pinned") else ebb.unpin
    return Brief.of(act(obj, **given, **caller.asks()))


def _suppress(ebb: Ebbtide, caller: Caller, said: takes.Suppress) -> Brief:
    obj, given = _about(said)
    freeze = given.pop("freeze")
    if given.pop("suppressed"):
        ebb.suppress(obj, freeze=freeze, **given, **caller.asks())
    else:
        _refuse(given | ({"freeze": True} if freeze else {}), ("expires_at", "freeze"), "goes with suppressed true")
        ebb.unsuppress(obj, **given, **caller.asks())
    return Brief.of(ebb.memory(obj, namespace=caller.namespace))


def _restore(ebb: Ebbtide, caller: Caller, said: takes.Restore) -> Brief:
    obj, given = _about(said)
    return Brief.of(ebb.restore(obj, **given, **caller.asks()))


def _forget(ebb: Ebbtide, caller: Caller, said: takes.Forget) -> Forgotten:
    what: Any = {"reason": said.reason, **caller.asks()}
    if said.confirmation is None:
        found = ebb.erase(*said.objects, preview=True, **what)
    else:
        found = ebb.erase(*said.objects, confirmation=said.confirmation, scrub=caller.scrubs, **what)
    return Forgotten.of(found, done=said.confirmation is not None)


def _explain(ebb: Ebbtide, caller: Caller, said: takes.Explain) -> Explained:
    obj, given = _about(said)
    return Explained.of(ebb.explain(obj, namespace=caller.namespace, **given))


def _forecast(ebb: Ebbtide, caller: Caller, said: takes.Forecast) -> Forecasted:
    obj, given = _about(said)
    return Forecasted.of(ebb.explain(obj, namespace=caller.namespace, **given))


def _about(said: takes.Arguments) -> tuple[str, dict[str, Any]]:
    """The memory that arguments name, and what else they say."""
    given = said.given()
    return given.pop("object"), given


def _refuse(given: dict[str, Any], fields: Iterable[str], why: str) -> None:
    for field in fields:
        if field in given:
            raise BadInput(why, field=field)


TOOLS = {
    "remember": Tool("Remember", Right.WRITE, takes.Remember, Kept, _remember),
    "memories": Tool("List memories", Right.READ, takes.Memories, Found, _memories, reads=True),
    "reinforce": Tool("Reinforce a memory", Right.WRITE, takes.Reinforce, Brief, _reinforce),
    "correct": Tool("Correct a memory", Right.WRITE, takes.Correct, Kept, _correct, destructive=True),
    "pin": Tool("Pin a memory", Right.WRITE, takes.Pin, Brief, _pin),
    "suppress": Tool("Suppress a memory", Right.WRITE, takes.Suppress, Brief, _suppress),
    "restore": Tool("Restore a memory", Right.WRITE, takes.Restore, Brief, _restore),
    "forget": Tool("Forget memories", Right.ERASE, takes.Forget, Forgotten, _forget, destructive=True),
    "explain": Tool("Explain a memory", Right.READ, takes.Explain, Explained, _explain, reads=True),
    "forecast": Tool("Forecast a memory", Right.READ, takes.Forecast, Forecasted, _forecast, reads=True),
}
