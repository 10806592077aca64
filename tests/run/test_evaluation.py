"""What an evaluation says: here, how its error is named."""

import traceback

from regretless.trial import last_line


def test_an_error_of_several_lines_is_named_by_its_first() -> None:
    """Messages of torch and scikit-learn have several lines, the last of which is a hint; notes come after them."""

    def told(error: Exception) -> str:
        try:
            try:
                int("an error before this one")
            except ValueError:
                raise error  # noqa: B904 - its traceback has two parts
        except type(error):
            return last_line(traceback.format_exc())

    assert told(RuntimeError("CUDA error: out of memory\nFor debugging consider a flag.")) == (
        "RuntimeError: CUDA error: out of memory"
    )
    assert (
        told(ValueError("\nAll the 5 fits failed.\nSet error_score='raise'.")) == "ValueError: All the 5 fits failed."
    )
    noted = KeyError("lr")
    noted.add_note("in fold 3")
    assert told(noted) == "KeyError: 'lr'"
    assert told(ExceptionGroup("two", [OSError("no disk"), ValueError("no data")])) == "ValueError: no data"
    assert last_line("the objective returned nan\n") == "the objective returned nan"
    assert last_line(" \n") == "no reason given"
