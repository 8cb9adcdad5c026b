"""What is looked for: nouns of the prompt, a vocabulary; and what is wrong with them."""

import pytest

from analysis.observe.objects.tags.tags import prompt_nouns, read_vocabulary
from probes.errors import UserError


def test_nouns_of_each_prompt():
    tags = prompt_nouns(backend="hanta", compounds=False)
    prompts = [("two women riding bikes",), ("running",), ("a man with a dog and a dog",)]
    assert tags([None] * 3, prompts) == [
        {"woman": "prompt", "bike": "prompt"},
        {},
        {"man": "prompt", "dog": "prompt"},
    ]


def test_images_of_a_triplet_are_searched_for_what_any_of_its_prompts_names():
    """But for the indicators' words: each image is searched for that of its own prompt."""
    words = ["person", "people", "woman", "women", "man", "men"]
    tags = prompt_nouns(backend="hanta", compounds=False, indicators=words)
    triplet = ["people on skis", "two women with a kite", "a man in a hat with his dog"]
    looked = tags([None] * 3, [(own, *(text for text in triplet if text != own)) for own in triplet])
    assert [list(one) for one in looked] == [
        ["person", "ski", "kite", "hat", "dog"],
        ["woman", "kite", "ski", "hat", "dog"],
        ["man", "hat", "dog", "ski", "kite"],
    ]


def test_a_vocabulary_is_read(tmp_path):
    (tmp_path / "tags.txt").write_text("Dog\n  bow   tie \nSt. Bernard\n")
    assert read_vocabulary(tmp_path / "tags.txt") == ["dog", "bow tie", "st bernard"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"dog\ncat\nDOG\n", r"line 3: `dog` stands on line 1 too: keep one"),
        (b"dog\n\ncat\n", r"line 2: expected a tag, got '': take the line out"),
        (b"\xff\xfe\x00", r"expected a text file in UTF-8"),
        (None, r"no such file"),
    ],
)
def test_a_wrong_vocabulary(content, message, tmp_path):
    if content is not None:
        (tmp_path / "tags.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_vocabulary(tmp_path / "tags.txt")
