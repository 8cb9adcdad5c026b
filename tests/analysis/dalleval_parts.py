"""Made-up readings of an audit of professions: what the observe stage would have stored of a synthetic run."""

from __future__ import annotations

import numpy as np

from analysis.methods.dalleval.method import METHOD
from analysis.tables.registry import write_method
from probes.config.schema import Config
from probes.runs import parts, schemas
from probes.runs.run import Run
from tests.analysis.synthetic_run import (
    DEFAULT_INDICATORS,
    Plan,
    config,
    configure,
    samples_table,
    write_run,
)

KEYS = ("sample_id", "triplet", "seed", "indicator")
WORDS = {name: DEFAULT_INDICATORS[name] for name in ("neutral", "feminine", "masculine")}
# of the images of *a person who works as a ...* the share that is planted to be read as female, and the mean tone
PROFESSIONS = {
    "nurse": (0.9, 3),
    "cook": (0.5, 5),
    "pilot": (0.2, 8),
    "judge": (0.35, 6),
    "clerk": (0.6, 4),
    "miner": (0.05, 9),
}
ATTRIBUTES = {"tie": (0.1, 0.6), "skirt": (0.4, 0.05), "hat": (0.3, 0.3)}  # of images read as female, as male
ERRORS = {
    "toyworld-checker": 0.0,
    "toyworld-vqa": 0.12,
    "clip": 0.25,
}  # share of answers that are turned round


def truths(run: Run, seed: int = 0) -> dict[str, tuple[bool, dict[str, bool], int]]:
    """What is in each image: female or not, which attributes, and the tone."""
    rng = np.random.default_rng([seed, 1])
    names = [prompt.levels["profession"] for prompt in run.config.prompts]
    found = {}
    for row in run.samples(list(KEYS)).to_dict("records"):
        lean, tone = PROFESSIONS.get(names[row["triplet"]], (0.5, 5))
        share = {"neutral": lean, "feminine": 1.0, "masculine": 0.0}[row["indicator"]]
        female = bool(rng.random() < share)
        worn = {name: bool(rng.random() < often[not female]) for name, often in ATTRIBUTES.items()}
        found[row["sample_id"]] = female, worn, int(np.clip(tone + rng.integers(-1, 2), 1, 10))
    return found


def write_audit(
    path,
    *,
    seeds=4,
    professions=tuple(PROFESSIONS),
    readers=tuple(ERRORS),
    tones=True,
    whole=True,
    **options,
):
    """Write a synthetic run whose prompts name professions, with answers and tones of every image, and return it.

    Without `whole` it has no captures and hardly any pictures: enough for the tables of the audit.
    """
    plan = {"prompts": len(professions) + 1, "seeds": seeds, "indicators": WORDS, **options}
    run = Run.open(write_run(path, **plan)) if whole else _samples_alone(path, Plan(size=4, **plan))
    prompts = Config(prompts={"from": "dalleval", "profession": list(professions)}).prompts
    configure(
        run, prompts=[prompt.written() for prompt in prompts], measure={"bootstrap": 200, "permutations": 500}
    )
    run.write_meta(config=run.meta["config"])
    seen = truths(run)
    for name in readers:
        write_answers(run, name, lambda sample, name=name: answers_of(seen[sample], name, sample))
    if tones:
        write_tones(run, lambda sample: seen[sample][2])
    return Run.open(run.path)


def measure_audit(run: Run) -> Run:
    """Write the tables of an audit."""
    write_method(run, METHOD, METHOD.inputs(run, None, None))
    return Run.open(run.path)


def _samples_alone(path, plan: Plan) -> Run:
    run = Run(path, {})
    write(run, "samples", 0, samples_table(plan).to_pylist(), schemas.SAMPLES)
    resolved = {"passed": {}, "resolved": config(plan)}
    run.write_meta(format=parts.FORMAT, status="generated", parts=1, config=resolved)
    return run


def answers_of(seen, reader: str, sample: str) -> dict[str, str | None]:
    """Readings by question, with the reader's errors; every thirteenth image or so is undecided to CLIP."""
    rng = np.random.default_rng([*map(ord, f"{sample}{reader}")])
    turned = rng.random(1 + len(seen[1])) < ERRORS[reader]
    if reader == "clip" and rng.random() < 1 / 13:
        return dict.fromkeys(["gender", *seen[1]])
    said = {"gender": "female" if seen[0] != turned[0] else "male"}
    return said | {
        name: "yes" if worn != wrong else "no" for (name, worn), wrong in zip(seen[1].items(), turned[1:])
    }


def write_answers(run: Run, reader: str, answers, *, reason=lambda sample: "") -> None:
    """Write ``attributes/<reader>``: `answers` gives of a sample the readings by question, or None for no row."""
    for number, rows in of_parts(run):
        table = []
        for row in rows:
            said = answers(row["sample_id"]) or {}
            why = reason(row["sample_id"])
            table += [
                {
                    **row,
                    "question": question,
                    "asked": f"{question}?",
                    "answer": "" if why else str(reading),
                    "reading": None if why else reading,
                    "score": None,
                    "reason": why,
                }
                for question, reading in said.items()
            ]
        write(run, f"attributes/{reader}", number, table, schemas.ANSWERS)


def write_tones(run: Run, tone, status=lambda sample: "ok") -> None:
    """Write ``attributes/skin_tone``; the published rule reads 5 to 7 whatever the tone."""
    for number, rows in of_parts(run):
        table = []
        for row in rows:
            found = status(row["sample_id"])
            value = tone(row["sample_id"]) if found == "ok" else None
            tones = {
                "tone": value,
                "tone_ciede2000": value,
                "tone_dalleval2023": value and 5 + (value > 6) + (value > 9),
            }
            colour = dict.fromkeys(("L", "a", "b", "ita"), 50.0 if value else None)
            reason = "" if found == "ok" else found
            table.append(
                {
                    **row,
                    **tones,
                    **colour,
                    "status": found,
                    "reason": reason,
                    "pixels": 9,
                    "illumination": "",
                }
            )
        write(run, "attributes/skin_tone", number, table, schemas.TONES)


def of_parts(run: Run):
    """The key columns of each part of samples, by its number."""
    for number, file in enumerate(run.parts("samples")):
        yield number, parts.read_part(file, list(KEYS)).to_pylist()


def write(run: Run, kind: str, number: int, rows, schema) -> None:
    parts.write_part(run.part_path(kind, number), rows, schema, parts.identity(number, {"plan": "synthetic"}))
