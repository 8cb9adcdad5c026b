"""Words of a triplet that are the same: the quick way against `difflib`'s."""

from difflib import SequenceMatcher

from hypothesis import given, settings
from hypothesis import strategies as st

from probes.prompts.alignment import same_rest

WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(st.integers(1, 3), min_size=10, max_size=10))
def test_the_same_rest_is_that_of_the_longest_matching_blocks(runs, lengths):
    """Runs of shared words between the indicators' own, of which each text has as many as it likes."""
    texts, apart = [], []
    for name, counts in (("x", lengths[:5]), ("y", lengths[5:])):
        words, blocked = [], set()
        for run, count in zip(runs, counts):
            blocked |= set(range(len(words), len(words) + count))
            words += [f"{name}{len(words) + i}" for i in range(count)] + run
        texts.append(words)
        apart.append(blocked)
    found = same_rest(texts, apart)
    blocks = SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks()
    expected = [(b.a + i, b.b + i) for b in blocks for i in range(b.size)]
    assert list(zip(*found)) == expected
    assert expected
