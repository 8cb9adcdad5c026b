"""The door of ``python -m analysis``, which is the command ``triptych`` (`triptych.cli.main`)."""

if __name__ == "__main__":
    import runpy

    runpy.run_module("triptych", run_name="__main__")
