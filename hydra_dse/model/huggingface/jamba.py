"""Reader of Jamba: Mamba layers with attention and mixtures at fixed periods."""

from __future__ import annotations

from hydra_dse.model.blocks import Block, FeedForward, Mixer, Model
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields


def read_jamba(fields: Fields) -> Model:
    """Jamba (arXiv 2403.19887): one layer in `attn_layer_period` attends, one in `expert_layer_period` is sparse."""
    attends = _periodic(fields, "attn_layer_period", "attn_layer_offset")
    is_sparse = _periodic(fields, "expert_layer_period", "expert_layer_offset")
    recurrent: Mixer = common.mamba1(fields, norms=True)
    attention: Mixer = common.attention(fields, bias=False)
    dense: FeedForward = common.mlp(fields)
    sparse: FeedForward = dense
    if fields.size("num_experts", "num_local_experts", default=1) > 1:
        sparse = common.mixture(fields, "intermediate_size")
    blocks = []
    for index in range(common.layer_count(fields)):
        attention_here = attends(index)
        blocks.append(
            Block(
                label="attention" if attention_here else "mamba",
                mixers=(attention if attention_here else recurrent,),
                feed_forward=sparse if is_sparse(index) else dense,
                norms=2,
            )
        )
    return common.assemble(fields, blocks)


class _Periodic:
    def __init__(self, period: int, offset: int) -> None:
        self.period, self.offset = period, offset

    def __call__(self, index: int) -> bool:
        return index % self.period == self.offset


def _periodic(fields: Fields, period_name: str, offset_name: str) -> _Periodic:
    period = fields.size(period_name, high=MAX_LAYERS)
    offset = fields.size(offset_name, low=0, high=MAX_LAYERS)
    if offset >= period:
        fields.fail(f"offset {offset} is not below the period {period}", offset_name)
    return _Periodic(period, offset)
