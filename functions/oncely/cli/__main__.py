"""Where `oncely` and `python -m oncely.cli` begin."""

import sys


def main() -> None:
    """Run the command; where only a producer's packages are installed, say what is missing."""
    try:
        from oncely.cli.main import run
    except ModuleNotFoundError as error:
        sys.exit(
            f"The package {error.name} is not installed beside this command: install it from a "
            'clone, with `pipx install --force ".[command]"`.'
        )
    run()


if __name__ == "__main__":
    main()
