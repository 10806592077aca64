"""What every room uses: checks of options, random streams, files of plain values, one BLAS thread."""
