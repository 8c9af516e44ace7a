"""Run the `infer` command as `python -m infer_app`."""

from infer_app.cli import main

if __name__ == "__main__":
    main()
