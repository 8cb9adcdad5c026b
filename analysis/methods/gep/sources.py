"""Who says what an image of an audit shows: readers of images, and estimates."""

POWERED = "PP"
SOURCES = {
    "checker": "the toyworld checker",
    "human": "people",
    "detected": "the object detector",
    POWERED: "a few labels and an estimate together (PP)",
    "CLS": "classifiers trained on CLIP’s text embeddings (CLS)",
    "CC": "CLIP similarity less that of a reference string (CC)",
    "C": "CLIP similarity (C)",
}
ORDER = tuple(SOURCES)  # figures show the first there is
