"""What the README and the notebooks do with the public functions, for the type checker alone: nothing here is run."""

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import analysis
import hooks
import triptych
from analysis.metrics.registry import headline_metrics
from analysis.report.figures.style import Drawn
from analysis.report.finding import Finding, finding
from hooks.prompt.wordmap import WordMap


def face(path: Path) -> None:
    config = triptych.Config(prompts=["a {person} with a dog"], seeds=[0, 1])
    plan: triptych.Plan = triptych.plan(config, sampler={"steps": 4})
    run: triptych.LoadedRun = triptych.run(config, stage="generate", out=str(path), progress=False)
    images: int = plan.images
    gap: pd.DataFrame = run.gap("unet.*.cross", step=0)
    claim: str = run.z0.claim
    interval: tuple[float, float] = run.finding("ssim", "masculine-feminine").interval
    picture: Image.Image = run.image(0, "feminine")
    overlay: Image.Image = run.word_map("t00000-s0-neutral", "dog").overlay()
    atlas: Drawn = run.plot_atlas()
    scores: Drawn = run.plot("bias-scores-masculine-feminine")
    claim_of_objects: str = run.objects().claim
    rows: list[pd.DataFrame] = [run.bias_scores("all"), run.chi_square(), run.disparity("z0"), plan.table]
    dots: list[Drawn] = [run.plot_gap("unet.*"), run.plot_disparity(), run.objects().plot(), plan.plot()]
    answers: list[triptych.Result] = [
        triptych.trace(run, trace={"prompts": 6}),
        triptych.power(run, gap=[0.1, 0.2]),
        triptych.labels(run, about="objects"),
        triptych.models(),
    ]
    failed: bool = triptych.verify("toyworld", out=path / "verified").failed
    names: list[str] = run.plots()["plot"].to_list()
    sites: pd.DataFrame = triptych.sites(pipe := triptych.load_pipeline("toyworld"))
    place: str = run.export("coco", path / "coco").place
    saved: Path = run.gallery(2, word="dog").save(path / "gallery.html")
    differences: pd.DataFrame = triptych.compare(run, path).differences
    with triptych.Probe(pipe, pairs=[(0, 1)], word_maps=True, head_maps=True, keep="x0_pred") as probe:
        pass
    decoded: list[Image.Image] = probe.decode(-1, "x0_pred")
    heads: tuple[WordMap, ...] = probe.word_map("dog").head("unet.mid.attn.0.cross")
    print(decoded, heads)
    with triptych.Intervention(pipe, [triptych.Patch("unet.mid", source=1, into=0)]):
        pass
    print(
        images,
        gap,
        claim,
        interval,
        picture,
        overlay,
        atlas,
        scores,
        claim_of_objects,
        rows,
        dots,
        answers,
        failed,
        names,
        sites,
        saved,
        place,
        differences,
        probe.similarity,
    )


def results(path: Path) -> None:
    run: analysis.LoadedRun = analysis.load_run(path)
    gap: pd.DataFrame = run.gap()
    metrics = headline_metrics("sequence")
    symbols: list[str] = [metric.symbol for metric in metrics]
    words: Finding = finding(gap.iloc[0].to_dict(), metrics[0], "neutral", ("masculine", "feminine"))
    claim: str = words.claim
    wrong: int = words.claim  # type: ignore[assignment]  # fails as unused where the type is lost
    print(symbols, claim, wrong)


def statistics(values: np.ndarray) -> None:
    test: triptych.stats.PairedTest = triptych.stats.paired_test(values, clusters=[0, 0, 1], level=0.95)
    absent: np.ndarray = triptych.stats.equivalence(values, 0.1, reach=2.0).p_value
    prompts: float = triptych.stats.prompts_needed(0.5, sd_prompt=1.0).prompts
    low: float = triptych.stats.share_difference([1, 2], [5, 5], [3, 4], [5, 5], paired=True).low
    print(test.p_adjusted, absent, prompts, low)


def inside(pipe: object) -> None:
    with hooks.Intervention(pipe, [hooks.Patch("unet.mid", source=1, into=0)]) as intervention:
        pass
    change: float = intervention.written[0].largest_change
    groups: dict[str, tuple[int, ...]] = hooks.position_groups(pipe, "a person", "person")
    print(change, groups)
    with hooks.Probe(pipe, sites=["unet.mid"], pairs=[(0, 1)], word_maps=True) as probe:
        heat: WordMap = probe.word_map("umbrella", row=0)
    mask: np.ndarray = heat.mask(0.4)
    print(mask, hooks.sites.available(pipe))
