"""How far a GEMM of a given shape fills the matrix cores of a die.

All rules return the factor by which the time grows over the peak, `1 / utilisation ≥ 1`.  Widths are those of the
slice a die works on and need not be whole (they stand for the mean slice).

- systolic, weight-stationary, double-buffered weights (after SCALE-Sim, arXiv 1811.02883): a fold of `R × C` weights
  streams `T` rows in `max(T, R)` cycles; folds are dealt over the cores; one fill of `2R + C − 2` cycles.
- mac-array (broadcast cores): an `R × C` tile of the result at a time; edge tiles run padded.
- where the rows of many small GEMMs vary (experts of a die), the last tile of each is half full on average.
- vector: no tile.
- a die's own measured table (rows, share of peak), linear between its points.
"""

from __future__ import annotations

import numpy as np

from hydra_dse.model.operators import Number
from hydra_dse.operator_cost.rates import DieRates


def inverse_utilisation(
    rates: DieRates, rows: Number, reduce_width: Number, output_width: Number, varying: bool = False
) -> Number:
    """Return `1 / utilisation` of a GEMM `rows × reduce_width × output_width` on a die.

    `varying`: the rows are the mean of many GEMMs whose rows vary by more than a tile.
    """
    # Fewer than one row stands for an operator that runs in some iterations only: it then has one row.
    rows = np.maximum(rows, 1.0)
    if rates.shape_efficiency:
        table_rows, share = np.array(rates.shape_efficiency, dtype=np.float64).T
        return np.asarray(1.0 / np.interp(rows, table_rows, share))
    if rates.style == "systolic":
        return _systolic(rates, rows, reduce_width, output_width)
    if rates.style == "vector":
        return 1.0
    tiles = _mean_padding(rows, rates.array_rows) if varying else _padding(rows, rates.array_rows)
    return tiles * _padding(output_width, rates.array_columns)


def _systolic(rates: DieRates, rows: Number, reduce_width: Number, output_width: Number) -> Number:
    height, width = rates.array_rows, rates.array_columns
    folds = tiles_of(reduce_width, height) * tiles_of(output_width, width)
    # Where there are fewer folds than cores the rows are split over the cores instead.
    cycles = folds * np.maximum(rows, height) / rates.cores + 2.0 * height + width - 2.0
    ideal = reduce_width * output_width * rows / (height * width * rates.cores)
    return np.asarray(np.maximum(cycles / ideal, 1.0))


def _mean_padding(rows: Number, tile: Number) -> Number:
    """Mean padding when the end of the rows falls anywhere in a tile; one tile at least."""
    return np.asarray(np.maximum(rows + 0.5 * tile, tile) / rows)


def _padding(length: Number, tile: Number) -> Number:
    return np.asarray(tiles_of(length, tile) * tile / length)


def tiles_of(length: Number, tile: Number) -> Number:
    """Tiles that a length takes; one that fills its tiles up to rounding takes no other."""
    return np.asarray(np.ceil(length / tile - 1e-9))
