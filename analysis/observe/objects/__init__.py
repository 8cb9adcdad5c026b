"""Objects in images: tags, boxes and masks, by Grounded-SAM or by a benchmark model's checker."""
