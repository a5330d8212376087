"""Ebbtide as a Python object: open a store, ask of memory, let time pass, read."""

from ebbtide.api.access import Access
from ebbtide.api.asking import DEFAULT_POLICY, Asking
from ebbtide.api.explaining import Explaining
from ebbtide.api.finding import Finding
from ebbtide.api.fitting import FittingPolicies
from ebbtide.api.following import Following
from ebbtide.api.guarding import Guarding
from ebbtide.api.opened import Progress, When, system_clock
from ebbtide.api.packing import Packing
from ebbtide.api.proving import Proving
from ebbtide.api.questions import Questions
from ebbtide.api.rehearsing import Rehearsing
from ebbtide.api.replaying import Replaying
from ebbtide.api.simulating import Simulating
from ebbtide.api.surveying import Surveying
from ebbtide.api.watching import Watching


class Ebbtide(
    Asking,
    Following,
    Replaying,
    Packing,
    Proving,
    Questions,
    Explaining,
    Guarding,
    FittingPolicies,
    Simulating,
    Rehearsing,
    Surveying,
    Watching,
    Access,
    Finding,
):
    """A store of memory. Every call is a unit of work of its own: on return it is committed, or nothing of it is.

    `url` names the store, `wait` is how many seconds a busy one is waited for, `policies` a folder of policy files
    beside the built-in ones, `queries` one of named queries. `clock` (µs since 1970) and `entropy` come from outside
    where a caller needs them to; `chunk_size` is the number of objects that one transaction of a pass covers.
    `summariser` makes one text of several, the contents of a window's events in their order, in place of the built-in
    one; it may take its time, and what it raises leaves the window for the next slot. Errors are `EbbtideError`s.
    """


__all__ = ["DEFAULT_POLICY", "Ebbtide", "Progress", "When", "system_clock"]
