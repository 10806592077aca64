"""One call that tunes a function: `minimize`, `maximize`, and the `Result` they return."""
