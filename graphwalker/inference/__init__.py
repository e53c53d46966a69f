"""Running a language model over episodes: engines (transformers, vLLM), the rollout harness, evaluation."""
