"""Trains a tiny Llama on made-up tokens with Hugging Face's Trainer. Start it with torchrun."""

import os

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from warpyard import huggingface

EPOCHS = int(os.environ.get("EPOCHS", "3"))

torch.manual_seed(0)
tokens = torch.randint(0, 64, (256, 8))
data = [{"input_ids": row, "labels": row} for row in tokens]
config = LlamaConfig(
    vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
)
arguments = TrainingArguments(
    os.environ.get("OUTPUT_DIR", "out"), num_train_epochs=EPOCHS, save_strategy="no", report_to=[], use_cpu=True
)
trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=data)
huggingface.attach(trainer)
trainer.train()
