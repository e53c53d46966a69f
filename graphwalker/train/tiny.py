"""The tiny models: a few million parameters and a byte-level BPE tokenizer, made from nothing.

What a small model must learn here is to copy names it has never seen: from the question into a query,
from an observation into the answer. Three choices make that come early. The short convolutions of LFM2
give each token its predecessor, which is half of a copying head; the other half is set at the start
(``copying_init``). And the tokenizer never lets a name's first letters swallow the space or quote before
them, so that a name is the same tokens wherever it stands.
"""

import re
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, Lfm2Config, PreTrainedTokenizerFast, Qwen2Config, set_seed

from graphwalker.train.copying_init import start_with_copying_heads

PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
TAGS = tuple(f"<{slash}{tag}>" for tag in ("think", "kg-query", "information", "answer") for slash in ("", "/"))

# The words of the interactive protocol, which are long and always the same.
CALLS = (
    r"(?:Thought|Action|Observation): ",
    r"Search(?:Nodes|Types)\(\"",
    r"SearchGraphPatterns\('SELECT \?e WHERE \{ ",
    r"ExecuteSPARQL\('SELECT (?:DISTINCT )?\?x WHERE \{ ",
    r"\?[a-z]\d{0,2} ns:type\.object\.name \"",
    r"\"@en \. ",
    r"\?[a-z]\d{0,2} ns:",
    r" \?[a-z]\d{0,2} \. ",
    r"FILTER\(\?[a-z]\d{0,2} != \?[a-z]\d{0,2}\) ",
    r"\}', semantic=\"",
    r"\}'\)",
    r"(?:\"?\), |\[)?\(\?e, ",
    r", \?e\)(?:, )?",
)
# Pieces within which BPE may merge, first match wins: a relation id stays whole, so a frequent one is
# one token; a capitalised word or a relation never takes the space before it, a lower-case word does;
# punctuation merges with punctuation ('", ["'), never with letters.
RELATION = r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+"
PIECES = "|".join(
    (
        r"(?:user|assistant)\n",
        *CALLS,
        r"get_(?:relations|triples)\(\"",
        RELATION,
        rf" (?={RELATION})",
        r" ?\p{Ll}[\p{Ll}\p{M}]*",
        r"\p{L}[\p{Ll}\p{M}]*",
        r"\p{N}{1,3}",
        r"[^\p{L}\p{N}\s]+(?: [^\p{L}\p{N}\s]+)*",
        r"\s",
    )
)


def train_tokenizer(texts: Iterable[str], vocabulary: int = 1024, model_max_length: int = 2048):
    """A byte-level BPE tokenizer trained on ``texts`` (rendered conversations, say); any text round-trips.

    ``vocabulary`` is the number of tokens in all, the 256 bytes and the special tokens included.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, START, END, *TAGS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    special = re.compile("|".join(re.escape(token) for token in (START, END, *TAGS)))
    # what stands between special tokens is what the tokenizer will be given to split
    tokenizer.train_from_iterator((part for text in texts for part in special.split(text)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=START,
        eos_token=END,
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
    )


def make_model(
    tokenizer, architecture: str = "lfm2", *, width: int = 128, layers: int = 4, heads: int = 4, seed: int = 0
):
    """A randomly initialised model for ``tokenizer``: ``lfm2`` (convolution and attention in turn) or ``qwen2``.

    ``width`` is the hidden size. Attention has ``heads`` query heads, and half as many key-value heads. A head of LFM2
    has size 64, whatever the width (it must tell thousands of tokens apart); one of Qwen2 has ``width / heads``, since
    vLLM reads no other size from a Qwen2 and serves it wrongly without a word. Embeddings are tied.
    """
    shared = {
        "vocab_size": len(tokenizer),
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": max(1, heads // 2),
        "head_dim": 64 if architecture == "lfm2" else width // heads,
        "max_position_embeddings": tokenizer.model_max_length,
        "tie_word_embeddings": True,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    if architecture == "lfm2":
        kinds = ["conv" if i % 2 == 0 else "full_attention" for i in range(layers)]
        config = Lfm2Config(**shared, layer_types=kinds, conv_L_cache=3, conv_bias=True, block_auto_adjust_ff_dim=False)
    elif architecture == "qwen2":
        config = Qwen2Config(**shared)
    else:
        raise ValueError(f"unknown architecture {architecture!r}; lfm2 or qwen2")
    set_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    if architecture == "lfm2":
        start_with_copying_heads(model)
    return model
