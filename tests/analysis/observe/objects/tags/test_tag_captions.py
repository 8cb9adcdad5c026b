"""Tags to captions and back: whole tags within the limit, labels matched by place."""

import numpy as np
import pytest
from transformers import BertTokenizer

from analysis.observe.objects.tags.tag_captions import captions, match
from probes.errors import UserError
from tests.analysis.observe.tiny_models import save_text_encoder


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return BertTokenizer.from_pretrained(save_text_encoder(tmp_path_factory.mktemp("bert")))


def test_one_caption_and_whose_tokens_are_whose(tokenizer):
    (caption,) = captions(["dog", "bow tie", "skateboarder", "tie"], tokenizer, 256)
    assert caption.text == "dog . bow tie . skateboarder . tie ."
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(caption.text)["input_ids"])
    spelled = {tag: [[tokens[i] for i in word] for word in words] for tag, words in caption.words.items()}
    assert spelled == {
        "dog": [["dog"]],
        "bow tie": [["bow"], ["tie"]],
        "skateboarder": [["skate", "##board", "##er"]],
        "tie": [["tie"]],
    }
    assert caption.words["tie"] != caption.words["bow tie"][1:]


@pytest.mark.parametrize("limit", [6, 9, 40])
def test_captions_hold_whole_tags_within_the_limit(tokenizer, limit):
    tags = ["dog", "bow tie", "cat", "skateboarder", "red ball", "tie", "umbrella", "person"]
    made = captions(tags, tokenizer, limit)
    assert [tag for caption in made for tag in caption.words] == tags
    lengths = [len(tokenizer(caption.text)["input_ids"]) for caption in made]
    assert max(lengths) <= limit
    for length, following in zip(lengths, made[1:]):  # none could have held one more
        first = next(iter(following.words))
        assert length + len(tokenizer(first, add_special_tokens=False)["input_ids"]) + 1 > limit
    for caption in made:
        tokens = tokenizer.convert_ids_to_tokens(tokenizer(caption.text)["input_ids"])
        for tag, words in caption.words.items():
            pieces = ["".join(tokens[i].removeprefix("##") for i in word) for word in words]
            assert " ".join(pieces) == tag


def test_a_tag_longer_than_the_encoder_takes(tokenizer):
    with pytest.raises(UserError, match=r"tags of at most 4 tokens, got 5 in 'red ball with a dog'"):
        captions(["red ball with a dog"], tokenizer, 7)


def test_labels_are_matched_by_place(tokenizer):
    (caption,) = captions(["dog", "bow tie", "skateboarder", "tie"], tokenizer, 256)
    # [CLS] dog . bow tie . skate ##board ##er . tie . [SEP]
    rows = {
        (1,): ("dog", ""),
        (3, 4): ("bow tie", ""),
        (4,): ("bow tie", ""),
        (10,): ("tie", ""),
        (4, 10): ("", "merged"),
        (1, 3): ("", "merged"),
        (6, 7, 8): ("skateboarder", ""),
        (6, 7): ("", "unknown"),  # reads "skateboard", which is no tag
        (): ("", "empty"),
        (0, 2, 12): ("", "empty"),
        (0, 1, 2): ("dog", ""),
    }
    probabilities = np.zeros((len(rows), 256))
    for row, positions in enumerate(rows):
        probabilities[row, list(positions)] = 0.21
    assert match(probabilities, caption, 0.2) == list(rows.values())
    assert match(probabilities, caption, 0.21) == [("", "empty")] * len(rows)  # above, not at
