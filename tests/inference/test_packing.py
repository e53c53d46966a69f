"""A packed row holds every sequence, and what sequences begin with once."""

from hypothesis import given
from hypothesis import strategies as st

from graphwalker.inference.values.packing import pack

SEQUENCES = st.lists(
    st.lists(st.integers(0, 2), min_size=2, max_size=9).map(tuple), min_size=1, max_size=12, unique=True
)


def tokens_of(row):
    return [token for branch in row for token in branch.new]


@given(SEQUENCES, st.integers(1, 40))
def test_every_sequence_can_be_read_back(sequences, most):
    rows = list(pack(sequences, most))
    assert sorted(branch.sequence for row in rows for branch in row) == sorted(sequences)
    for row in rows:
        ids = tokens_of(row)
        assert len(ids) <= most or len(row) == 1
        for branch in row:
            places = [place for span in (*branch.shared, branch.own) for place in range(*span)]
            assert tuple(ids[place] for place in places) == branch.sequence[:-1]
            assert all(begin < end for begin, end in branch.shared)
            wanted = dict(zip(places, branch.sequence[1:], strict=True))
            assert {place: wanted[place] for place in branch.predicting} == dict(
                zip(branch.predicting, branch.targets, strict=True)
            )


@given(SEQUENCES)
def test_nothing_is_there_twice(sequences):
    (row,) = pack(sequences, 1000)
    beginnings = {sequence[:end] for sequence in sequences for end in range(1, len(sequence))}
    assert len(tokens_of(row)) == len(beginnings)
