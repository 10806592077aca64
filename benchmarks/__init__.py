"""Speed measurements; `python -m benchmarks` runs all, `python -m benchmarks NAME ...` some."""
