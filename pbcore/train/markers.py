"""The special tokens of `tiny`."""

MASK, EOS, UNKNOWN, USER, ASSISTANT = "<|mask|>", "<|eos|>", "<|unknown|>", "<|user|>", "<|assistant|>"
SPECIAL = (MASK, EOS, UNKNOWN, USER, ASSISTANT)
