"""Where it is decided: images drawn with activations exchanged between the words of a triplet, as a stage of a run."""
