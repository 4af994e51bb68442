"""Reads and writes Hugging Face folders. This module has the names of the files, and the scheme of paths on the hub."""

CONFIG = "config.json"
PL_BERT_CONFIG = "config.yml"
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"  # of weights in several files
TOKENIZER_JSON, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
MODULES, LENGTH_CONFIG = "modules.json", "sentence_bert_config.json"  # of sentence-transformers
LENGTH = "model_max_length"  # the key of TOKENIZER_CONFIG
ADAPTER = "adapter_config.json"  # of PEFT
PICKLES = (".bin", ".pt", ".pth", ".t7", ".pkl", ".pickle")  # their endings
SCHEME = "hf://"
DTYPES = ("float32", "float16", "bfloat16")  # of weights
