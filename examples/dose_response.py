# %% [markdown]
# # The best dose, with the model you know
#
# A culture responds to a dose by a Hill curve, and grows along a Gompertz curve with the time it is given. Both cost
# money, each measurement is noisy and takes a day. We know the shape of the response, not its five parameters. GO-UCB
# fits them while it looks for the best setting.
#
# Run it as a script, or cell by cell in an editor that knows `# %%`.

# %%
import numpy as np

import regretless as rg

# %% [markdown]
# ## The model
# A function of the parameters `w` and of the settings `x`, one row per experiment, in our own units: micromoles and
# days. `w_bounds` says what each parameter may be; rates and concentrations are searched on a log scale.


# %%
def profit(w, x):
    dose, days = np.maximum(x[:, 0], 1e-9), x[:, 1]
    response = 1 / (1 + (w[1] / dose) ** w[2])
    growth = np.exp(-w[3] * np.exp(-w[4] * days))
    return w[0] * response * growth - 0.02 * dose - 0.03 * days


w_bounds = {
    "top": (0.5, 4.0),
    "EC50": rg.Float(0.5, 50, log=True),
    "hill": (0.5, 5.0),
    "lag": (1.0, 8.0),
    "rate": rg.Float(0.1, 2, log=True),
}
space = {"dose": rg.Float(0, 40), "days": rg.Float(0, 21)}

# %% [markdown]
# ## The laboratory
# Here it is a secret set of parameters and noise of 0.03; in earnest it is you and a pipette.

# %%
secret = np.array([2.2, 6.0, 2.1, 4.0, 0.45])
rng = np.random.default_rng(7)


def true_profit(dose: float, days: float) -> float:
    return float(profit(secret, np.array([[dose, days]]))[0])


# %% [markdown]
# ## Twenty-four experiments

# %%
optimizer = rg.Optimizer(
    space, method=rg.GOUCB(model=profit, w_bounds=w_bounds), direction="maximize", budget=24, seed=1
)
for number in range(24):
    trial = optimizer.ask()
    measured = true_profit(**trial.params) + 0.03 * rng.standard_normal()
    optimizer.tell(trial, measured)
    print(f"{number:2d}  dose {trial.params['dose']:6.2f}  days {trial.params['days']:6.2f}  measured {measured:7.3f}")

# %% [markdown]
# ## What we know now
# The setting to use, how much better another could be, and the parameters with their 95 % intervals. A wide interval is
# no failure: a parameter that the data do not determine is one that the profit near the optimum does not depend on.

# %%
best = optimizer.recommend()
print("\nuse", {name: round(value, 2) for name, value in best.items()}, f"true profit {true_profit(**best):.4f}")
print(optimizer.certificate_at(0.1))
for name, (value, low, high) in optimizer.method.parameters(optimizer.history).items():
    print(f"  {name:5s} {value:7.3f}   [{low:.3f}, {high:.3f}]")
print(optimizer.method.misfit(optimizer.history) or "nothing speaks against the model")

# %% [markdown]
# The best possible, by brute force over the secret function:

# %%
dose, days = np.meshgrid(np.linspace(0, 40, 801), np.linspace(0, 21, 421))
grid = np.column_stack([dose.ravel(), days.ravel()])
print(f"best possible {float(profit(secret, grid).max()):.4f}")
fitted, residuals = optimizer.method.residuals(optimizer.history)
print(f"residuals: sd {residuals.std():.3f}, largest {np.abs(residuals).max():.3f}")
