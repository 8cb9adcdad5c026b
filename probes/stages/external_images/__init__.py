"""Images that another program drew, brought into a run: the generate stage of a model that nobody can open."""
