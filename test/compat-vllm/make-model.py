"""Makes a Qwen3 of two layers with random weights, and a byte-level tokenizer for it: `make-model.py FOLDER`."""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LINES = [
    "A router that knows which worker holds a prefix sends the request there.",
    "The river runs past the mill, and the mill grinds corn for the town.",
    "word0 word1 word22 word333 word4444 0123456789",
]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)

plain = Tokenizer(models.BPE())
plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
plain.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(
    vocab_size=500,
    special_tokens=SPECIAL,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
)
plain.train_from_iterator(LINES, trainer)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=plain, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
)
tokenizer.save_pretrained(folder)

torch.manual_seed(0)
model = Qwen3ForCausalLM(
    Qwen3Config(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        initializer_range=0.2,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
)
model.to(torch.bfloat16).save_pretrained(folder)
