"""Pages and sections on bundled models and readers, from ``quality.json`` and ``recipe.json`` beside their weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from scipy import stats

from analysis.observe.objects.engines.grounded import OWN_NMS
from analysis.questions import GENDER, GENDER_SENTENCES, paper_questions
from lab.templates import render
from probes.config.observation import BLIP2_PROMPT, BLIP2_WEIGHTS, Questions
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS, WORK, WORK_NULL
from probes.toyworld.pipelines import TEACHERS

BARS = {"mask IoU": 0.80, "AP50": 0.85, "recall and precision": 0.85}
TAG_BAR, WORN_BAR = 0.90, 0.95  # of ram's tags; of answers about what is worn, on the mean over attributes
INDICATORS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
FEWEST = 5  # images of a class and word that the page names
FOUND = {
    "presence": "label seen",
    "iou_0.5": "and IoU with its box at least 0.5",
    "run_presence": "label kept, as in a run",
    "run_iou_0.5": "as in a run, and IoU at least 0.5",
}
TAGGED = ("renderings", "drawn")
WORST = 3  # attributes that the page on questions names
NEAR = 0.05
LEANING = ("dress", "tie")  # of the feminine mixture, and of the masculine one
_READERS = {
    "`blip2`": (
        f"BLIP-2 by transformers: a folder or a hub id, `{BLIP2_WEIGHTS}` as the authors' code has it by default"
        f" otherwise, at a `revision`. It is asked in the form *{BLIP2_PROMPT.replace('{question}', '…')}* (`prompt`),"
        f" with a beam search of {Questions().beams} (`beams`), in float16 on a GPU (bfloat16 where its language model"
        " is a T5) and in float32 on a CPU",
        "none",
    ),
    "`clip`": (
        "zero-shot by the `clip` of `observe.feature_weights` (ViT-B/32): a softmax over a sentence for each reading"
        f" (*{GENDER_SENTENCES['female']}*, *{GENDER_SENTENCES['male']}*; *a person in boots*, *a person*), at the"
        " model's logit scale",
        "probability",
    ),
    "`toyworld-vqa`": ("a small network for toyworld's images (below)", "probability"),
    "`toyworld-checker`": ("toyworld's exact checker; of `gender`, the verdict", "posterior of `gender`"),
    "`human`": (
        "people: `triptych labels sheet RUN --about questions`, then `read RUN labels.csv`; what more than half of them"
        " say; where skin tones are read also `tone`, 1 to 10, by the card that comes with the sheet: their median;"
        " of a run whose prompts ask for skills what the skill is ([visual skills](../how_to/paintskills.md))",
        "their share",
    ),
}


def stored(folder: str, name: str = "quality") -> dict[str, Any]:
    """A JSON file beside weights."""
    return json.loads((WEIGHTS / folder / f"{name}.json").read_text())


def detectors_page() -> str:
    """Return the page on detectors in Markdown."""
    sam, dino, ram = map(stored, ("sam", "grounding-dino", "ram"))
    found = {
        what: {
            (row["quantity"], row["object"], row["indicator"]): row
            for row in dino[f"generated_{name}"]["rates"]
        }
        for name, what in FOUND.items()
    }
    kept = found[FOUND["run_presence"]]
    return render(
        "detectors",
        bars=BARS,
        indicators=INDICATORS,
        sam=sam,
        dino=dino,
        found=found,
        worst=[row for row in kept.values() if _is_low(row, kept)],
        box_threshold=dino["generated_presence"]["box_threshold"],
        own_nms=OWN_NMS,
        ram=ram,
        tagged=TAGGED,
        bar=TAG_BAR,
        below={name: _below(ram[name]) for name in TAGGED},
    )


def _is_low(row: dict[str, Any], rates: dict[tuple[str, str, str], dict[str, Any]]) -> bool:
    """Whether a row is the recall of a class and word that is below the bar, or whose precision is."""
    name, bar = row["object"], BARS["recall and precision"]
    precision = rates.get(("precision", name, row["indicator"]), row)["value"]
    counts = row["quantity"] == "recall" and name != "all" and row["n"] >= FEWEST
    return counts and min(row["value"], precision) < bar


def _below(table: dict[str, Any]) -> list[str]:
    """Tags below the bar."""
    shares = {tag: (row["recall"], row["precision"]) for tag, row in table["by_tag"].items()}
    return [tag for tag, both in shares.items() if any(one is not None and one < TAG_BAR for one in both)]


def questions_page() -> str:
    """Return the page on questions in Markdown."""
    quality, paper = stored("vqa"), paper_questions()
    rendered, first = quality["renderings"], quality["models"][BENCHMARK_MODELS[0]]
    with safe_open(WEIGHTS / "vqa" / "model.safetensors", "np") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    return render(
        "questions",
        gender=GENDER,
        readers=_READERS,
        parameters=sum(map(math.prod, shapes)),
        quality=quality,
        run=quality["runs"][BENCHMARK_MODELS[0]],
        bar=WORN_BAR,
        # what was measured by the paper's questions: two kinds of renderings, and each model's images
        shown={
            **{kind: rendered[kind] for kind in ("rendered", "autoencoded")},
            **{f"`{name}`": quality["models"][name] for name in BENCHMARK_MODELS},
        },
        # those that the first benchmark model draws and that are answered with yes least often
        worn=[
            "worn",
            *sorted(paper.keys() - {GENDER}, key=lambda key: first[key]["sensitivity"] or 0.0)[:WORST],
        ],
    )


def transformers_section() -> str:
    """Return the section on diffusion transformers of the page on toyworld, beside their U-Nets."""
    rows = [
        {"name": name, "measured": stored(name), "teacher": stored(teacher)}
        for name, teacher in TEACHERS.items()
    ]
    for row in rows:
        cells = row["cells"] = cells_against(row["measured"], row["teacher"])
        neutral = {cell["thing"]: cell for cell in cells if cell["group"] == "neutral"}
        row["lean"] = [neutral[thing] for thing in LEANING]
        row["near"] = np.mean([cell["away"] <= NEAR for cell in cells])
        row["teacher_near"] = np.mean([cell["teacher_away"] <= NEAR for cell in cells])
    files = [path for name in TEACHERS for path in (WEIGHTS / name).rglob("*.safetensors")]
    return render("toyworld_dit", rows=rows, size=sum(path.stat().st_size for path in files) / 1e6)


def cells_against(measured: dict[str, Any], teacher: dict[str, Any]) -> list[dict[str, Any]]:
    """Each frequency of what is not named, with how far it and its U-Net's are from what was planted."""
    drawn = {(cell["group"], cell["thing"]): cell["drawn"] for cell in teacher["cells"]}
    return [
        {
            **cell,
            "teacher": drawn[cell["group"], cell["thing"]],
            "away": abs(cell["drawn"] - cell["planted"]),
            "teacher_away": abs(drawn[cell["group"], cell["thing"]] - cell["planted"]),
        }
        for cell in measured["cells"]
    ]


def work_section() -> str:
    """Return the section on `toyworld-work` of the page on toyworld."""
    return render("toyworld_professions", **_professions(WORK))


def null_section() -> str:
    """Return the section on `toyworld-work-null` of the page on toyworld."""
    summary = _professions(WORK_NULL)
    rows, rates = summary["rows"], summary["rates"]
    above = np.array([round(row["share"] * row["images"]) for row in rows])
    images = np.array([row["images"] for row in rows])
    skins = np.array([np.round(np.array(row["tones"]["shares"]) * row["tones"]["n"]) for row in rows])
    return render(
        "toyworld_professions_null",
        **summary,
        b=above.sum() / images.sum(),
        neutral=images.sum(),
        expected=(rates["a"] + rates["b"]) / 2,
        b_differ=stats.chi2_contingency(np.stack([above, images - above]), correction=False).pvalue,
        skins=skins.sum(0) / skins.sum(),
        read=int(skins.sum()),
    )


def _professions(name: str) -> dict[str, Any]:
    """What both sections say of a model: its measurement and recipe, and what the template sums up from them."""
    measured = stored(name)
    rows = [row for row in measured["professions"] if row["profession"]]
    leans = [abs(row["lean"] - row["planted"]) for row in rows]
    least = min(measured["nouns"], key=measured["nouns"].get)
    return {
        "measured": measured,
        "recipe": stored(name, "recipe"),
        "rows": rows,
        "rates": measured["verdict_rates"],
        "size": Path(WEIGHTS / name / "delta.safetensors").stat().st_size / 1000,
        "lean_away": sum(leans) / len(leans),
        "lean_worst": max(leans),
        "skin_away": sum(row["tones"]["difference"] for row in rows) / len(rows),
        "woman": sum(row["share_b"]["feminine"] for row in rows) / len(rows),
        "man": sum(row["share_b"]["masculine"] for row in rows) / len(rows),
        "least": least,
        "least_share": measured["nouns"][least],
    }
