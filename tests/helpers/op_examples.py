"""An example, or more, of every op of the table: they call all that can be called.

What they compute is checked elsewhere.
"""

from __future__ import annotations

import numpy as np

from aiocann import F16, F32, I32, Q4_0, Q8_0, Tensor, ops
from helpers.op_runs import OpRuns


async def op_examples(runs: OpRuns) -> list[Tensor]:
    """Build the examples on a backend: nodes that may be computed in one graph."""
    x = await runs.leaf(runs.uniform((2, 3, 8), low=0.5))
    half = await runs.leaf(runs.uniform((2, 3, 8), F16), F16)
    row = await runs.leaf(runs.uniform((8, 4)))
    wide = await runs.leaf(runs.uniform((2, 5, 8)))
    ids = await runs.leaf(np.array([2, 0, 1], np.int32), I32)
    mask = await runs.leaf(runs.uniform((3, 8), F16), F16)
    target = await runs.leaf(runs.uniform((2, 3, 8), F16), F16)
    first = ops.view(x, (3, 8))
    pairs = await runs.leaf(np.array([[0, 1], [1, 0], [1, 1]], np.int32), I32)
    square = await runs.leaf(runs.uniform((4, 4), low=0.5))
    heads = await runs.leaf(runs.uniform((1, 3, 2, 64)))
    places = await runs.leaf(np.arange(3, dtype=np.int32), I32)
    factors = await runs.leaf(runs.uniform((32,), low=0.9))
    q = await runs.leaf(runs.uniform((1, 4, 3, 64)))
    keys = await runs.leaf(runs.uniform((1, 2, 16, 64), F16), F16)
    short = ops.view(x, (3, 2, 8))
    memory = await runs.leaf(runs.uniform((1, 2, 8, 8)))
    far = await runs.leaf(runs.uniform((1, 1, 3, 16), F16), F16)
    lines = await runs.leaf(runs.uniform((3, 2, 32)))
    packed = [(await runs.weights((3, 5, 32), dtype))[0] for dtype in (Q4_0, Q8_0)]
    return [
        *(op(x, x) for op in (ops.add, ops.sub, ops.mul, ops.div)),
        *(op(x) for op in (ops.sqr, ops.abs, ops.neg, ops.exp, ops.log, ops.sqrt)),
        *(op(x) for op in (ops.sin, ops.cos, ops.tanh, ops.sigmoid, ops.relu)),
        *(op(x) for op in (ops.silu, ops.gelu, ops.gelu_erf, ops.sum, ops.sum_rows)),
        *(op(x, eps=1e-5) for op in (ops.norm, ops.rms_norm, ops.l2_norm)),
        ops.l2_norm(half, eps=1e-5),
        ops.mean(x),
        ops.scale(x, 2.0),
        ops.scale(x, 2.0, 1.0),
        ops.scale(half, 2.0, 1.0),
        ops.clamp(x, 0.6, 0.7),
        ops.mul_mat(first, ops.transpose(row)),
        ops.mul_mat(wide, x),
        ops.mul_mat(wide, half),
        ops.mul_mat(first, x),
        ops.mul_mat(x, ops.view(wide, (4, 2, 8))),
        *(ops.mul_mat(w, lines) for w in packed),
        *(ops.mul_mat_id(w, lines, pairs) for w in packed),
        ops.get_rows(packed[1], ops.view(pairs, (3, 2))),
        ops.soft_max(x),
        ops.soft_max(x, mask, scale=0.5),
        ops.soft_max(ops.view(x, (1, 2, 3, 8)), mask, scale=0.5, max_bias=1.0),
        ops.soft_max(half),
        ops.get_rows(first, ids),
        ops.get_rows(ops.view(half, (3, 8)), ids),
        ops.cast(x, F16),
        ops.cast(ops.permute(x, (2, 1, 0)), F16),
        ops.cont(ops.transpose(x)),
        ops.dup(x),
        ops.cpy(x, target),
        *(op(x) for op in (ops.elu, ops.step, ops.softplus, ops.sgn, ops.gelu_quick)),
        *(op(x) for op in (ops.hardsigmoid, ops.hardswish, ops.cumsum, ops.geglu)),
        *(op(x, x) for op in (ops.reglu, ops.geglu_erf, ops.swiglu, ops.geglu_quick)),
        *(op(half) for op in (ops.gelu_quick, ops.swiglu, ops.geglu_quick)),
        ops.add1(x, ops.sum(x)),
        ops.leaky_relu(x, 0.1),
        ops.group_norm(x, n_groups=1, eps=1e-5),
        ops.cross_entropy_loss(row, ops.transpose(ops.view(x, (4, 8)))),
        ops.count_equal(ids, ids),
        ops.out_prod(row, row),
        ops.set_rows(first, ids, ops.dup(first)),
        ops.set_rows(first, ids, ops.view(target, (3, 8))),
        ops.set(x, first),
        ops.acc(x, first),
        ops.concat(x, x, 0),
        ops.repeat(row, (8, 8)),
        ops.pad(x, [(1, 1)]),
        ops.pad_reflect_1d(x, 2, 3),
        ops.upscale(x, 6, 9),
        ops.tri(x, "lower"),
        ops.tri(x, "upper"),
        ops.diag(ops.view(x, (1, 8))),
        ops.diag_mask_inf(x, 1),
        ops.timestep_embedding(ops.view(x, (4,)), 5, 100),
        ops.fill(x, 1.5),
        ops.arange(-1, 2.5, 0.75),
        ops.argmax(x),
        ops.argsort(x),
        ops.argsort(x, descending=True),
        ops.mul_mat_id(x, ops.view(x, (3, 2, 8)), pairs),
        ops.solve_tri(square, ops.view(x, (4, 6))),
        ops.pool_2d(x, (2, 2)),
        ops.pool_2d(x, (2, 2), average=True),
        ops.conv_transpose_1d(ops.view(x, (2, 3, 8)), ops.view(x, (2, 5))),
        ops.ssm_conv(ops.view(x, (1, 4, 7)), ops.view(x, (4, 4))),
        ops.gated_linear_attn(short, short, short, short, memory, scale=0.5),
        *(
            ops.im2col(ops.view(x, (2, 1, 2, 2)), ops.view(x, (1, 1, 4, 6)), dtype=to)
            for to in (F32, F16)
        ),
        *(
            ops.rope(heads, places, n_dims=n_dims, mode=mode)
            for mode, n_dims in ((0, 64), (2, 32))
        ),
        ops.rope(
            heads, places, factors, n_dims=64, mode=2, n_ctx_orig=512, ext_factor=0.5
        ),
        *(
            ops.flash_attn_ext(q, keys, keys, extra, scale=1.0, max_bias=bias)
            for extra, bias in ((None, 0), (far, 0), (far, 8))
        ),
    ]
