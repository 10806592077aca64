"""GP-ThreDS as printed, as plainly programmed as the rival that its paper times: every sample of a test factorises the
kernel matrix of that test anew. Its points are those of `gp-threds-printed`; only its clock differs."""

from regretless.methods.gp_threds.printed import PrintedGPThreDS, PrintedRun
from regretless.methods.gp_threds.threshold_tree import Cell, CellTest
from regretless_bench.methods.grid_posteriors import RefittedRows


class RefittedRun(PrintedRun):
    """A run whose tests refit."""

    def new_test(self, cell: Cell) -> CellTest:
        test, (length, noise_var) = super().new_test(cell), (self.scale.lengthscale, self.scale.noise_var)
        test.posterior = RefittedRows(test.grid, kernel=self.kernel, lengthscale=length, noise_var=noise_var)
        return test


class RefittedGPThreDS(PrintedGPThreDS):
    """`gp-threds-printed` at the cost of the standard implementation; its options are those of that method."""

    run_class = RefittedRun
