"""The same optimiser for other programs and machines: shells, HTTP, agents."""
