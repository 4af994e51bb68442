"""Reads and writes Hugging Face folders. This module has the names of the files, and the scheme of paths on the hub."""

CONFIG = "config.json"
PL_BERT_CONFIG = "config.yml"
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"  # of weights in several files
TOKENIZER_JSON, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
MODULES, LENGTH_CONFIG = "modules.json", "sentence_bert_config.json"  # of sentence-transformers
# In this order, as AlbertTokenizer and BertTokenizer of transformers 4 have it. Without token_type_ids, transformers 5
# does not give a model the segments of a pair.
MODEL_INPUTS = ["input_ids", "token_type_ids", "attention_mask"]
LENGTH = "model_max_length"  # the key of TOKENIZER_CONFIG
TORCH_WEIGHTS = "pytorch_model.bin"
TORCH_INDEX = f"{TORCH_WEIGHTS}.index.json"
PL_BERT_WEIGHTS = "step_1000000.t7"  # of the published PL-BERT; a training of it writes step_NUMBER.t7
PICKLES = (".bin", ".pt", ".pth", ".t7", ".pkl", ".pickle")  # the endings of files of torch.save
# Weights of other libraries, which are not read.
OTHERS = {"tf_model.h5": "transformers 4 on TensorFlow", "flax_model.msgpack": "transformers 4 on Flax",
          "rust_model.ot": "rust-bert"}
ADAPTER = "adapter_config.json"  # of PEFT
SCHEME = "hf://"
DTYPES = ("float32", "float16", "bfloat16")  # of weights
