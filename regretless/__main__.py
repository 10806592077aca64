"""`python -m regretless` is the command `regretless`, for shells that do not find it."""

from regretless.cli import main

if __name__ == "__main__":
    main()
