"""Lines that are not taken, each with the field to be named and its exit code."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

EVENT = {"op": "EVENT", "ref": "bad", "content": "x"}
ASSERT = {
    "op": "ASSERT",
    "ref": "bad",
    "object_type": "FACT",
    "epistemic_type": "ASSERTED",
    "source_type": "USER_STATED",
    "value": "x",
}
ABOUT = {"ref": "bad", "object": "home"}
SIGNAL = ABOUT | {"op": "REINFORCE", "signal": "CONFIRMED"}
MOVED = ABOUT | {"op": "EPISTEMIC_TRANSITION", "to_type": "OBSERVED", "trigger_type": "user_correction"}
MIB = 1 << 20


class Bad(NamedTuple):
    """A line that is not taken: its bytes, the field to be named, the exit code (4 where a rule says no)."""

    line: bytes
    field: str | None
    code: int = 2


def bad(base: dict[str, Any], field: str | None, code: int = 2, **changes: Any) -> Bad:
    """`base` with changes; a change to `...` leaves the key out."""
    line = {key: value for key, value in (base | changes).items() if value is not ...}
    return Bad(json.dumps(line).encode(), field, code)


def raw(text: str | bytes, field: str | None = None) -> Bad:
    return Bad(text.encode() if isinstance(text, str) else text, field)


def event(value: str) -> str:
    """An event of which a value is given as JSON text."""
    return '{"op":"EVENT","ref":"bad","content":' + value + "}"


def scored(value: str) -> str:
    return json.dumps(ASSERT)[:-1] + f',"salience":{value}}}'


LINES = {
    "not JSON": raw("op=EVENT"),
    "half a line": raw('{"op":"EVENT"'),
    "trailing garbage": raw(event('"x"') + " x"),
    "two objects": raw(event('"x"') * 2),
    "single quotes": raw(event("'x'")),
    "an array": raw("[" + event('"x"') + "]"),
    "a string": raw('"EVENT"'),
    "null": raw("null"),
    "a raw control character": raw(event('"a\tb"')),
    "a raw U+0000": raw(event('"a\0b"')),
    "Latin-1": raw(event('"caf\xe9"').encode("latin-1")),
    "UTF-16": raw(event('"x"').encode("utf-16")),
    "an encoded surrogate": raw(event('"\ud800"').encode("utf-8", "surrogatepass")),
    "over 1 MiB": raw(event(f'"{"x" * MIB}"')),
    "far over 1 MiB": raw(event(f'"{"x" * (3 * MIB)}"')),
    "nested 300 deep": raw(event("[" * 300 + "]" * 300), "content"),
    "nested 900 deep": raw(event("[" * 900 + "]" * 900), "content"),
    "nested 100,000 deep": raw("[" * 100_000),
    "a key twice": raw('{"op":"EVENT","ref":"bad","content":1,"content":1}', "content"),
    "a key twice further in": raw(event('{"a":1,"a":2}'), "a"),
    "no op": bad(EVENT, "op", op=...),
    "op null": bad(EVENT, "op", op=None),
    "op a list": bad(EVENT, "op", op=["EVENT"]),
    "op in small letters": bad(EVENT, "op", op="event"),
    "op with a line break": bad(EVENT, "op", op="EV\nENT"),
    "op of the organiser": bad(SIGNAL, "op", op="DECAY_APPLIED"),
    "op of a policy": bad(EVENT, "op", op="POLICY_ASSIGNED"),
    "op of a correction": bad(EVENT, "op", op="CORRECTED"),
    "neither ref nor time": bad(EVENT, "ref", ref=...),
    "an unknown key": bad(EVENT, "colour", colour="red"),
    "an unknown key in capitals": bad(EVENT, "COLOUR", COLOUR="red"),
    "a key of another op": bad(EVENT, "salience", salience=0.5),
    "an internal key": bad(EVENT, "content_", content_="x"),
    "EVENT without content": bad(EVENT, "content", content=...),
    "EVENT with content null": bad(EVENT, "content", content=None),
    "EVENT by an unknown role": bad(EVENT, "role", role="BOSS"),
    "EVENT in an empty stream": bad(EVENT, "stream", stream=" "),
    "unknown object type": bad(ASSERT, "object_type", object_type="RUMOUR"),
    "unknown epistemic type": bad(ASSERT, "epistemic_type", epistemic_type="asserted"),
    "unknown source type": bad(ASSERT, "source_type", source_type=7),
    "unknown actor type": bad(ASSERT, "actor_type", actor_type="ROBOT"),
    "unknown profile": bad(ASSERT, "decay_profile", decay_profile="GLACIAL"),
    "unknown condition": bad(ASSERT, "condition", epistemic_type="CONDITIONAL", condition="MAYBE"),
    "ASSERT without a type": bad(ASSERT, "object_type", object_type=...),
    "ASSERT without a value": bad(ASSERT, "value", value=...),
    "asserted as DEPRECATED": bad(ASSERT, "epistemic_type", epistemic_type="DEPRECATED"),
    "IMPORTED without confidence": bad(ASSERT, "confidence", source_type="IMPORTED"),
    "condition of what is not CONDITIONAL": bad(ASSERT, "condition", condition="TRUE"),
    "a score above 1": bad(ASSERT, "salience", salience=1.0000001),
    "a score below 0": bad(ASSERT, "confidence", confidence=-0.1),
    "a score as text": bad(ASSERT, "salience", salience="0.5"),
    "a score true": bad(ASSERT, "salience", salience=True),
    "a score NaN": raw(scored("NaN"), "salience"),
    "a score 1e999": raw(scored("1e999"), "salience"),
    "a score -Infinity": raw(scored("-Infinity"), "salience"),
    "a score of 400 digits": raw(scored("9" * 400), "salience"),
    "a score of 5000 digits": raw(scored("9" * 5000)),
    "a number of 5000 digits": raw(event("9" * 5000)),
    "content NaN": raw(event("NaN"), "content"),
    "content with 1e999 in it": raw(event('{"a":[1e999]}'), "content"),
    "content with U+0000": raw(event('"a\\u0000b"'), "content"),
    "content with a key U+0000": raw(event('{"\\u0000":1}'), "content"),
    "content with half a surrogate pair": raw(event('["\\ud83d"]'), "content"),
    "metadata a list": bad(EVENT, "metadata", metadata=[1]),
    "metadata with U+0000": bad(EVENT, "metadata", metadata={"a": "\0"}),
    "metadata with a key U+0000": bad(EVENT, "metadata", metadata={"a\0b": 1}),
    "metadata with half a surrogate pair": bad(EVENT, "metadata", metadata={"a": "\ud800"}),
    "metadata with half a surrogate pair as key": bad(EVENT, "metadata", metadata={"\ud800": 1}),
    "a reason with U+0000": bad(SIGNAL, "reason", reason="\0"),
    "a reason that is a number": bad(SIGNAL, "reason", reason=1),
    "a ref that is a number": bad(EVENT, "ref", ref=1),
    "an empty ref": bad(EVENT, "ref", ref=""),
    "a ref of 256 characters": bad(EVENT, "ref", ref="r" * 256),
    "a ref with a line break": bad(EVENT, "ref", ref="a\nb"),
    "an actor with U+0007": bad(EVENT, "actor_id", actor_id="a\x07"),
    "a stream with U+001F": bad(EVENT, "stream", stream="a\x1f"),
    "a subject with U+0000": bad(EVENT, "subject", subject="a\0"),
    "a namespace with a tab": bad(EVENT, "namespace", namespace="a\tb"),
    "a namespace with half a surrogate pair": bad(EVENT, "namespace", namespace="\udc80"),
    "a time without zone": bad(EVENT, "effective_at", effective_at="2026-01-05T09:00:00"),
    "a date": bad(EVENT, "effective_at", effective_at="2026-01-05"),
    "a time as number": bad(EVENT, "effective_at", effective_at=1767603600),
    "a time true": bad(EVENT, "effective_at", effective_at=True),
    "the 30th of February": bad(EVENT, "effective_at", effective_at="2026-02-30T09:00:00Z"),
    "the 13th month": bad(EVENT, "effective_at", effective_at="2026-13-01T09:00:00Z"),
    "the 25th hour": bad(EVENT, "effective_at", effective_at="2026-01-05T25:00:00Z"),
    "the year 10000": bad(EVENT, "effective_at", effective_at="10000-01-05T09:00:00Z"),
    "object missing": bad(SIGNAL, "object", object=...),
    "object null": bad(SIGNAL, "object", object=None),
    "ACCESS without object": bad(ABOUT, "object", op="ACCESS", object=...),
    "ACCESS with a signal": bad(ABOUT, "signal", op="ACCESS", signal="CONFIRMED"),
    "REINFORCE without signal": bad(SIGNAL, "signal", signal=...),
    "REINFORCE with a penalty": bad(SIGNAL, "signal", signal="CORRECTED"),
    "PENALTY with a reinforcement": bad(SIGNAL, "signal", op="PENALTY", signal="CONFIRMED"),
    "restore as text": bad(SIGNAL, "restore", restore="yes"),
    "SUPERSEDE without value": bad(ABOUT, "value", op="SUPERSEDE"),
    "SUPERSEDE as DEPRECATED": bad(ABOUT, "epistemic_type", op="SUPERSEDE", value=1, epistemic_type="DEPRECATED"),
    "PIN with a session": bad(ABOUT, "session_id", op="PIN", session_id="s"),
    "UNPIN with a value": bad(ABOUT, "value", op="UNPIN", value=1),
    "RESTORE of a list": bad(ABOUT, "object", op="RESTORE", object=["home"]),
    "HOLD with a signal": bad(ABOUT, "signal", op="HOLD", signal="CONFIRMED"),
    "RELEASE without object": bad(ABOUT, "object", op="RELEASE", object=...),
    "ARCHIVE with a value": bad(ABOUT, "value", op="ARCHIVE", value=1),
    "DEPRECATE for a number": bad(ABOUT, "reason", op="DEPRECATE", reason=1),
    "CONDITION_SET to nothing": bad(ABOUT, "condition", op="CONDITION_SET"),
    "CONDITION_SET to MAYBE": bad(ABOUT, "condition", op="CONDITION_SET", condition="MAYBE"),
    "transition to an unknown type": bad(MOVED, "to_type", to_type="KNOWN"),
    "transition by an unknown trigger": bad(MOVED, "trigger_type", trigger_type="whim"),
    "SUPPRESS of nothing": bad(ABOUT, "object", op="SUPPRESS", object=...),
    "SUPPRESS of an object and a filter": bad(ABOUT, None, op="SUPPRESS", subject="maya"),
    "SUPPRESS until a time without zone": bad(ABOUT, "expires_at", op="SUPPRESS", expires_at="2027-01-01T00:00:00"),
    "SUPPRESS that freezes a filter": bad(ABOUT, "freeze", op="SUPPRESS", object=..., subject="maya", freeze=True),
    "UNSUPPRESS of an unknown type": bad(ABOUT, "object_type", op="UNSUPPRESS", object=..., object_type="RUMOUR"),
    "evidence as text": bad(ASSERT, "evidence", evidence="m1"),
    "evidence that is a number": bad(ASSERT, "evidence", evidence=["m1", 1]),
    "expected_version as text": bad(SIGNAL, "expected_version", expected_version="1"),
    "expected_version true": bad(SIGNAL, "expected_version", expected_version=True),
    "expected_version 1.0": bad(SIGNAL, "expected_version", expected_version=1.0),
    "expected_version -1": bad(SIGNAL, "expected_version", expected_version=-1),
}
"""What is bad whatever the store holds."""

AGAINST_STORE = {
    "a time to come": bad(EVENT, "effective_at", effective_at="2999-01-05T09:00:00Z"),
    "the end of time": bad(EVENT, "effective_at", effective_at="9999-12-31T23:59:59-14:00"),
    "before all time": bad(EVENT, "effective_at", ref="dawn", effective_at="0001-01-01T00:00:00+14:00"),
    "unknown evidence": bad(ASSERT, "evidence", evidence=["m1", "m9"]),
    "evidence of another namespace": bad(ASSERT, "evidence", evidence=["m1"], namespace="other"),
    **{
        f"{op} of an unknown object": bad(ABOUT, "object", op=op, object="nobody", **more)
        for op, more in {
            "ACCESS": {},
            "REINFORCE": {"signal": "CONFIRMED"},
            "PENALTY": {"signal": "CORRECTED"},
            "PIN": {},
            "UNPIN": {},
            "RESTORE": {},
            "HOLD": {},
            "RELEASE": {},
            "ARCHIVE": {},
            "DEPRECATE": {},
            "SUPPRESS": {"freeze": True},
            "UNSUPPRESS": {},
            "CONDITION_SET": {"condition": "TRUE"},
            "EPISTEMIC_TRANSITION": {"to_type": "OBSERVED", "trigger_type": "user_correction"},
            "SUPERSEDE": {"value": 1},
        }.items()
    },
    "an event as object": bad(SIGNAL, "object", object="m1"),
    "SUPERSEDE of IMPORTED": bad(ABOUT, "confidence", op="SUPERSEDE", object="import", value=1),
    "a name used otherwise": bad(ASSERT, None, 4, ref="home"),
    "a name used for an event": bad(ASSERT, None, 4, ref="m1"),
    "another version": bad(SIGNAL, None, 4, expected_version=7),
    "a version of 19 digits": bad(SIGNAL, None, 4, expected_version=10**18),
    "RESTORE of an ACTIVE one": bad(ABOUT, None, 4, op="RESTORE"),
    "REINFORCE of a superseded one": bad(SIGNAL, None, 4, object="old"),
    "PENALTY of a superseded one": bad(SIGNAL, None, 4, op="PENALTY", signal="CORRECTED", object="old", restore=True),
    "PIN of a superseded one": bad(ABOUT, None, 4, op="PIN", object="old"),
    "ARCHIVE of a superseded one": bad(ABOUT, None, 4, op="ARCHIVE", object="old"),
    "DEPRECATE of a superseded one": bad(ABOUT, None, 4, op="DEPRECATE", object="old"),
    "the condition of an ASSERTED one": bad(ABOUT, None, 4, op="CONDITION_SET", condition="TRUE"),
    "a forbidden transition": bad(MOVED, None, 4, to_type="INFERRED"),
    "SUPERSEDE of a superseded one": bad(ABOUT, None, 4, op="SUPERSEDE", object="old", value=1),
}
"""What only the store can refuse."""
