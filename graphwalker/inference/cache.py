"""A key/value cache whose rows have lengths of their own.

transformers' caches keep all rows of a batch at one length, so a batch of episodes runs in lockstep.
Here every row has its own length: a forward pass names the rows it touches, where each one's new
tokens start and how many there are (the rest of the chunk is right padding, never read again).
Attention layers keep keys and values; short-convolution layers (LFM2) keep the last inputs.

Shapes: R rows in all, B rows in this pass, T new tokens, H key/value heads, L cached length, D head size.
"""

import torch
from transformers.cache_utils import Cache

Rows = int | list[int]


class _Pass:
    """Which rows one forward pass touches; shared by all layers of a cache."""

    def __init__(self) -> None:
        self.index: torch.Tensor | None = None  # (B,) rows, None for the first B rows
        self.count = 0  # B
        self.new = torch.empty(0, dtype=torch.long)  # (B,) tokens that are not padding
        self.positions = torch.empty(0, dtype=torch.long)  # (B, T)
        self.width = 0  # cached length that this pass attends over

    def row_numbers(self) -> torch.Tensor:
        return torch.arange(self.count) if self.index is None else self.index


class _AttentionRows:
    """Keys and values of one attention layer, (R, H, L, D), grown when a row outgrows it."""

    is_compileable = False

    def __init__(self, current: _Pass, capacity: int):
        self.current, self.capacity = current, capacity
        self.keys = self.values = torch.empty(0, 0, 0, 0)

    def _grow(self, like: torch.Tensor) -> None:
        _, heads, _, size = like.shape
        have = self.keys.shape[2]
        need = int(self.current.positions.max()) + 1
        if need <= have:
            return
        # by at least half the present size, so that growth copies each entry only a few times
        length = max(need, have + have // 2, 256)
        for name in ("keys", "values"):
            grown = torch.zeros(self.capacity, heads, length, size, dtype=like.dtype, device=like.device)
            if have:
                grown[:, :, :have] = getattr(self, name)
            setattr(self, name, grown)

    def update(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write (B, H, T, D) at each row's own positions; return (B, H, width, D) to attend over."""
        self._grow(keys)
        current, width = self.current, self.current.width
        at = (current.row_numbers().to(keys.device)[:, None], slice(None), current.positions.to(keys.device))
        # advanced indices around a slice put their dimensions first: (B, T, H, D)
        self.keys[at] = keys.transpose(1, 2)
        self.values[at] = values.transpose(1, 2)
        if current.index is None:  # the first rows: a view, nothing is copied
            return self.keys[: current.count, :, :width], self.values[: current.count, :, :width]
        index = current.index.to(keys.device)
        return self.keys[:, :, :width][index], self.values[:, :, :width][index]

    def copy(self, source: Rows, target: Rows, length: int) -> None:
        if length:  # else there may be no room yet
            for kept in (self.keys, self.values):
                kept[target, :, :length] = kept[source, :, :length]

    def clear(self, row: int) -> None:
        """Nothing to do: positions past a row's length are masked."""


class _ConvolutionRows:
    """The last ``kernel - 1`` inputs of one short convolution, (R, C, kernel - 1)."""

    record_past = True  # sends the layer down its general path, which goes through ``update``
    is_compileable = False

    def __init__(self, current: _Pass, capacity: int):
        self.current, self.capacity = current, capacity
        self.state: torch.Tensor | None = None

    def update(self, inputs: torch.Tensor, kernel: int) -> torch.Tensor:
        """Put each row's past before its (B, C, T) inputs: (B, C, kernel - 1 + T); keep the new past."""
        if self.state is None:
            shape = (self.capacity, inputs.shape[1], kernel - 1)
            self.state = torch.zeros(shape, dtype=inputs.dtype, device=inputs.device)
        index = self.current.row_numbers().to(inputs.device)
        joined = torch.cat([self.state[index], inputs], dim=-1)
        # the new past ends where the row's own tokens end, before the right padding
        last = self.current.new.to(inputs.device)[:, None] + torch.arange(kernel - 1, device=inputs.device)
        self.state[index] = joined.gather(2, last[:, None, :].expand(-1, joined.shape[1], -1))
        return joined

    def copy(self, source: Rows, target: Rows, length: int) -> None:
        if self.state is not None:
            self.state[target] = self.state[source]

    def clear(self, row: int) -> None:
        if self.state is not None:
            self.state[row] = 0


class RaggedCache(Cache):
    """The cache of up to ``capacity`` rows for one model.

    Raises ``ValueError`` for a model with layers other than full attention and short convolution.
    """

    def __init__(self, config, capacity: int):
        config = config.get_text_config()
        kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
        layer_of = {"full_attention": _AttentionRows, "conv": _ConvolutionRows}
        unknown = sorted(set(kinds) - set(layer_of))
        if unknown:
            raise ValueError(f"no ragged cache for layers of type {', '.join(unknown)}")
        self.current = _Pass()
        super().__init__(layers=[layer_of[kind](self.current, capacity) for kind in kinds])
        self.kinds = frozenset(kinds)
        self.lengths = [0] * capacity

    def begin(self, index: list[int] | None, new: list[int], device) -> tuple[torch.Tensor, torch.Tensor]:
        """Prepare a pass over the rows ``index`` (``None``: the first ``len(new)``) with ``new`` tokens each.

        Returns position ids (B, T) and the attention mask (B, 1, T, width), True where a query may look.
        """
        current = self.current
        rows = list(range(len(new))) if index is None else index
        current.index = None if index is None else torch.tensor(index)
        current.count = len(new)
        current.new = torch.tensor(new)
        start = torch.tensor([self.lengths[row] for row in rows])
        current.positions = start[:, None] + torch.arange(max(new))
        current.width = int((start + current.new).max())
        mask = torch.arange(current.width)[None, None, None, :] <= current.positions[:, None, :, None]
        for row, count in zip(rows, new, strict=True):
            self.lengths[row] += count
        return current.positions.to(device), mask.to(device)

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Copy a row's state onto another row."""
        length = self.lengths[target] = self.lengths[source]
        for layer in self.layers:
            layer.copy(source, target, length)

    @torch.inference_mode()
    def copy(self, sources: list[int], targets: list[int]) -> None:
        """Copy rows onto other rows, all at once, so that a row may be both."""
        lengths = [self.lengths[source] for source in sources]
        for target, length in zip(targets, lengths, strict=True):
            self.lengths[target] = length
        for layer in self.layers:
            layer.copy(sources, targets, max(lengths, default=0))

    def swap(self, one: int, other: int) -> None:
        """Exchange the states of two rows."""
        self.copy([one, other], [other, one])

    @torch.inference_mode()
    def clear(self, row: int) -> None:
        self.lengths[row] = 0
        for layer in self.layers:
            layer.clear(row)

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        return self.layers[layer_idx].update(key_states, value_states)

    def update_conv_state(self, conv_states, layer_idx, conv_kernel_size, **kwargs):
        return self.layers[layer_idx].update(conv_states, conv_kernel_size)

    def has_previous_state(self, layer_idx=None) -> bool:
        return True

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.current.width
