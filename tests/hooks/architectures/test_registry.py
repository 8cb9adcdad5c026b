"""Every text-to-image pipeline of diffusers is read, or refused with a reason that holds."""

import inspect

import diffusers
import pytest
from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING

from hooks.architectures import registry
from hooks.architectures.registry import supported_pipelines, why_unread

# which the list of diffusers leaves out
BESIDE = """
BriaPipeline BriaFiboPipeline BriaFibo2Pipeline DreamLitePipeline ErnieImagePipeline HiDreamImagePipeline
HunyuanImagePipeline Kandinsky5T2IPipeline KolorsPipeline LongCatImagePipeline OmniGenPipeline PRXPixelPipeline
SanaSprintPipeline
""".split()  # noqa: SIM905  (a paragraph is easier to keep than a list)
NAMES = sorted({*(kind.__name__ for kind in AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values()), *BESIDE})
# what the call of a pipeline takes if such a reason is true
SIGNS = {
    registry._GIVEN: ("image",),
    registry._VIDEO: ("num_frames", "video"),
    registry._FURTHER: ("pag_scale",),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_pipeline_is_read_or_has_a_reason(name):
    assert (name in supported_pipelines()) != (why_unread(name) is not None)


@pytest.mark.parametrize("reason", SIGNS)
def test_reasons_hold(reason):
    """Of all pipelines that are given a prompt, those with a reason have its sign in their call."""
    false = []
    for name in dir(diffusers):
        if name.endswith("Pipeline") and why_unread(name) == reason:
            taken = inspect.signature(getattr(diffusers, name).__call__).parameters
            if "prompt" in taken and not any(sign in one for one in taken for sign in SIGNS[reason]):
                false.append(name)
    assert not false
