"""Reads and writes Hugging Face folders. This module has the names of the files, and the scheme of paths on the hub."""

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"  # of weights in several files
TOKENIZER_JSON, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
MODULES, LENGTH_CONFIG = "modules.json", "sentence_bert_config.json"  # of sentence-transformers
LENGTH = "model_max_length"  # the key of TOKENIZER_CONFIG
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle")  # their endings
SCHEME, NAME_ON_THE_HUB = "hf://", r"[\w.-]+/[\w.-]+"
DTYPES = ("float32", "float16", "bfloat16")  # of weights
