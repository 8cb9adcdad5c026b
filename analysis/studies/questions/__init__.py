"""Questions of a run answered by people: a sheet of images to fill in, and what they answered taken into the run."""
