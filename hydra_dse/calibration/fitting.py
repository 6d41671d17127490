"""Robust least squares of log errors, with bootstrap intervals, cross-validation and a test of what is determined.

Residuals are `log(predicted / measured)` under a soft-L1 loss, so that a kernel that changes its algorithm in a
corner of the table does not bend the rest.  Parameters are positive and fitted in their logarithm within physical
limits.  Configurations (models, head counts, weight shapes) are resampled whole and left out whole: neighbouring rows
of one configuration share their errors, and single rows would make intervals too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hydra_dse.calibration.nouns import Errors, Fit, FloatArray, Observations
from hydra_dse.errors import Fault, InputError
from hydra_dse.rng import derive

LOSS_SCALE = 0.1
MANY_CONFIGURATIONS = 6
LOOSE = 0.5
AT_LIMIT = 1e-3
TIED = 0.99


def fit(observations: Observations, *, draws: int = 100, seed: int = 0) -> Fit:
    """Fit a form to rows.

    Args:
        observations: rows of one chip.
        draws: bootstrap samples; 0 leaves the interval at the value.
        seed: of the bootstrap.

    Raises:
        InputError: fewer rows than parameters.
    """
    _enough(observations)
    values = fitted_values(observations)
    low, high = _interval(observations, values, draws, seed)
    return Fit(
        observations=observations,
        values=values,
        low=low,
        high=high,
        undetermined=_undetermined(observations, values, low, high),
        errors=errors_of(observations, values),
        held_out=leave_out(observations),
    )


def fitted_values(observations: Observations, start: FloatArray | None = None) -> FloatArray:
    """Parameter values of least loss, shape (parameters,)."""
    from scipy.optimize import least_squares

    low, high = _limits(observations)
    measured = np.log(observations.response)

    def residuals(logs: FloatArray) -> FloatArray:
        return np.log(observations.predicted(np.exp(logs))) - measured

    first = np.log(start if start is not None else [p.start for p in observations.form.parameters])
    inside = np.clip(first, low + 1e-9, high - 1e-9)
    found = least_squares(residuals, inside, bounds=(low, high), loss="soft_l1", f_scale=LOSS_SCALE, max_nfev=400)
    return np.asarray(np.exp(found.x))


def errors_of(observations: Observations, values: FloatArray) -> Errors:
    """Errors of rows under given parameter values."""
    return Errors(observations.predicted(values) / observations.response - 1.0)


def leave_out(observations: Observations) -> Errors | None:
    """Errors of each row when its configuration is left out; None where the rest does not determine the form.

    Every fit starts anew: a start from the full fit would carry the left-out rows into it.
    """
    numbers = observations.configurations()
    values = fitted_values(observations)
    rank = _rank(observations, values)
    relative = np.zeros(len(observations))
    for number in np.unique(numbers):
        out = numbers == number
        rest = observations.rows(~out)
        if len(rest) < len(observations.form.parameters) or _rank(rest, values) < rank:
            return None
        relative[out] = errors_of(observations.rows(out), fitted_values(rest)).relative
    return Errors(relative)


def _rank(observations: Observations, values: FloatArray) -> int:
    """How many directions of the parameters the rows see."""
    return int(np.linalg.matrix_rank(_jacobian(observations, values), tol=1e-4))


def _enough(observations: Observations) -> None:
    rows, needed = len(observations), len(observations.form.parameters)
    if rows < needed:
        raise InputError(Fault(f"{observations.key} on {observations.chip.name}: {rows} rows for {needed} parameters"))


def _limits(observations: Observations) -> tuple[FloatArray, FloatArray]:
    parameters = observations.form.parameters
    low = np.log([parameter.low for parameter in parameters])
    return np.asarray(low), np.asarray(np.log([parameter.high for parameter in parameters]))


def _interval(observations: Observations, values: FloatArray, draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
    if draws == 0:
        return values, values
    blocks = _blocks(observations)
    rng = derive(seed, "calibration", observations.chip.name, observations.key)
    count = int(blocks.max()) + 1
    members = [np.flatnonzero(blocks == number) for number in range(count)]
    samples = []
    for _ in range(draws):
        chosen = np.concatenate([members[number] for number in rng.integers(0, count, count)])
        samples.append(fitted_values(observations.rows(chosen), values))
    low, high = np.quantile(samples, [0.05, 0.95], axis=0)
    return np.minimum(low, values), np.maximum(high, values)


def _blocks(observations: Observations) -> NDArray[np.int64]:
    """What is resampled whole: configurations, or rows where configurations are too few to resample."""
    numbers = observations.configurations()
    return numbers if numbers.max() + 1 >= MANY_CONFIGURATIONS else np.arange(len(observations))


def _undetermined(
    observations: Observations, values: FloatArray, low: FloatArray, high: FloatArray
) -> Mapping[str, str]:
    parameters = observations.form.parameters
    if len(observations) == len(parameters):
        return {parameter.name: "as many rows as parameters: no error can be estimated" for parameter in parameters}
    tied = _tied(observations, values)
    reasons = {}
    for number, parameter in enumerate(parameters):
        if values[number] < parameter.low * (1.0 + AT_LIMIT) or values[number] > parameter.high * (1.0 - AT_LIMIT):
            reasons[parameter.name] = "at its physical limit: the rows do not show it"
        elif high[number] - low[number] > 2.0 * LOOSE * values[number]:
            reasons[parameter.name] = f"90 % interval wider than ±{LOOSE:.0%}"
        elif number in tied:
            reasons[parameter.name] = f"tied to {parameters[tied[number]].name} (correlation above {TIED})"
    return reasons


def _tied(observations: Observations, values: FloatArray) -> dict[int, int]:
    """Parameters whose estimates are almost a function of another's, from the Jacobian of log predictions."""
    jacobian = _jacobian(observations, values)
    active = [number for number in range(len(values)) if np.abs(jacobian[:, number]).max() > 1e-6]
    if len(active) < 2:
        return {}
    information = jacobian[:, active].T @ jacobian[:, active]
    covariance = np.linalg.pinv(information)
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = np.abs(covariance / np.outer(scale, scale)) - np.eye(len(active))
    return {
        active[number]: active[int(row.argmax())] for number, row in enumerate(correlation) if float(row.max()) > TIED
    }


def _jacobian(observations: Observations, values: FloatArray) -> FloatArray:
    step = 1e-5
    base = np.log(observations.predicted(values))
    columns = []
    for number in range(len(values)):
        moved = values.copy()
        moved[number] *= np.exp(step)
        columns.append((np.log(observations.predicted(moved)) - base) / step)
    return np.column_stack(columns)
