"""The door of ``python -m probes.run``, which is the command ``triptych run`` (`triptych.cli.run`)."""

if __name__ == "__main__":
    import runpy

    runpy.run_module("triptych.cli.run", run_name="__main__")
