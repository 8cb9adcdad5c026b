"""Cards of a run: what was measured and how, in the sentences of its report, no number without what it rests on."""
