"""Images that another program generated, brought into a run: the generate stage of a model that cannot be loaded."""
