"""The door of ``python -m probes.run triplets.yaml``, which is ``triptych triplets.yaml`` (`triptych.cli.main`)."""

if __name__ == "__main__":
    import runpy

    runpy.run_module("triptych", run_name="__main__")
