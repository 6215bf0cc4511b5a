"""`SharedMap` against a dict: any run of changes, with every earlier map still as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kmirror.metadata.shared_map import SharedMap

KEYS = st.integers(0, 60)
CHANGES = st.lists(st.tuples(st.dictionaries(KEYS, st.integers(0, 9), max_size=25), st.lists(KEYS, max_size=10)), max_size=12)


@given(start=st.dictionaries(KEYS, st.integers(0, 9)), changes=CHANGES, looks=st.lists(st.booleans(), min_size=12, max_size=12))
def test_it_is_a_dict_that_leaves_its_predecessors_alone(
    start: dict[int, int], changes: list[tuple[dict[int, int], list[int]]], looks: list[bool]
) -> None:
    model, shared = dict(start), SharedMap(start)
    history = [(dict(model), shared)]
    for (changed, removed), looks_at_it in zip(changes, looks, strict=False):
        for key in removed:
            model.pop(key, None)
        model |= changed
        shared = shared.updated(changed, removed)
        if looks_at_it:
            assert dict(shared.items()) == model
        history.append((dict(model), shared))
    for expected, there in history:
        assert len(there) == len(expected)
        assert [there.get(key, -1) for key in range(61)] == [expected.get(key, -1) for key in range(61)]
        assert [key in there for key in range(61)] == [key in expected for key in range(61)]
        assert there == expected
        assert sorted(there.values()) == sorted(expected.values())


def test_order_is_a_dicts_order() -> None:
    big = SharedMap(dict.fromkeys(range(1000), 0))
    later = big.updated({5: 1, 2000: 1, 1500: 1}, removed=[3])
    assert list(later) == [number for number in range(1000) if number != 3] + [2000, 1500]
    assert list(big) == list(range(1000))


def test_a_change_does_not_copy_the_base() -> None:
    big = SharedMap(dict.fromkeys(range(10000), 0))
    small_steps = big
    for number in range(50):
        small_steps = small_steps.updated({number: 1})
    assert small_steps._base is big._base
    assert len(small_steps._changes) == 50
