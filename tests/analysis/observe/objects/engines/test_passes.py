"""Passes over the same images: what they share is computed once, and is what it would be alone."""

from pathlib import Path

import torch

from analysis.observe.objects.models.grounding_dino import GroundingDino

CPU = torch.device("cpu")
PASSES = [["dog . cat .", "dog . cat ."], ["red ball .", "umbrella ."], ["bow tie . person ."] * 2]


def calls(module):
    """How often a module is called from here on."""
    made = []
    module.register_forward_hook(lambda *_: made.append(1))
    return made


def test_a_pass_with_others_gives_what_it_gives_alone(checkpoints, noise):
    path, images = Path(checkpoints["detector"]), noise[:2]
    alone = [GroundingDino(path, "", CPU).ground(images, captions) for captions in PASSES]
    detector = GroundingDino(path, "", CPU)
    backbone, encoder = calls(detector.model.backbone[0]), calls(detector.model.bert.encoder)
    with detector.same_images():
        together = [detector.ground(images, captions) for captions in PASSES]
    for one, other in zip(alone, together):
        for a, b in zip(one, other):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert (len(backbone), len(encoder)) == (1, len(PASSES))
    # other images: their own features, and the captions that are known already
    others = detector.ground(noise[2:4], PASSES[0])
    assert (len(backbone), len(encoder)) == (2, len(PASSES))
    expected = GroundingDino(path, "", CPU).ground(noise[2:4], PASSES[0])
    torch.testing.assert_close(others, expected, rtol=0, atol=0)
    assert not torch.equal(others[0], alone[0][0])
