"""When an organiser says that it is well: after a pass, until one fails or none has come for too long."""

from __future__ import annotations

import pytest

from ebbtide.model.errors import StoreUnavailable
from ebbtide.service.watch import Watch


class Seconds:
    """A clock that stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def watch(seconds) -> Watch:
    return Watch(every=100, counts=True, clock=seconds)


def problems(watch: Watch) -> list[str]:
    found = watch.health()
    assert found["ready"] == (found["problems"] == [])
    return found["problems"]


def test_it_is_not_ready_before_a_pass_has_come_to_its_end(watch) -> None:
    assert problems(watch) == ["no pass has come to its end yet"]
    with watch.one_pass():
        assert problems(watch) != []
    assert problems(watch) == []


def test_it_is_not_ready_after_a_pass_that_failed_until_one_is_well(watch) -> None:
    with pytest.raises(StoreUnavailable), watch.one_pass():
        raise StoreUnavailable("the file is held")
    assert problems(watch) == ["the last pass failed: the file is held"]
    with watch.one_pass():
        pass
    assert problems(watch) == []


def test_it_is_not_ready_when_three_wake_ups_have_passed(watch, seconds) -> None:
    with watch.one_pass():
        pass
    seconds.now += 300
    assert problems(watch) == []
    seconds.now += 1
    assert problems(watch) == ["no pass and no chunk of one has ended for 301 s"]


def test_a_pass_that_takes_long_is_well_while_its_chunks_come(watch, seconds) -> None:
    with watch.one_pass():
        pass
    with watch.one_pass():
        for _ in range(10):
            seconds.now += 250
            watch.wrote({"DECAY_APPLIED": 50_000})
            assert problems(watch) == []
        seconds.now += 301
        assert problems(watch) != []
    assert problems(watch) == []


def test_frequent_wake_ups_are_given_a_minute(seconds) -> None:
    watch = Watch(every=0.2, counts=True, clock=seconds)
    with watch.one_pass():
        pass
    seconds.now += 60
    assert problems(watch) == []
    seconds.now += 1
    assert problems(watch) != []
