"""Models on the Hugging Face Hub: hf://org/name[@revision][/subfolder], for example hf://albert/albert-base-v2.

huggingface_hub downloads them to its cache and uploads them, so its environment variables apply: HF_HOME, HF_ENDPOINT,
HF_TOKEN, HF_HUB_OFFLINE. Only the files that albert_tf reads are downloaded.

A download that was cut leaves some files of a repository in the cache, and huggingface_hub takes them for the whole
repository if the hub cannot be reached later. So weights are downloaded last: where they are, all other files are.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import urllib.parse
from typing import Iterator, NamedTuple

from absl import logging

from albert_tf.config import CONFIG_NAME
from albert_tf.weights.hugging_face import (
    ADAPTER,
    CONFIG,
    INDEX,
    MODULES,
    OTHERS,
    PL_BERT_CONFIG,
    SCHEME,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    TORCH_INDEX,
    TORCH_WEIGHTS,
)
from albert_tf.weights.hugging_face.tokenizer_options import ADDED_TOKENS, SPECIAL_TOKENS_MAP
from albert_tf.weights.settings import SETTINGS
from albert_tf.weights.vocabulary import VOCABULARIES

# The names that the readers of a Hugging Face folder look for, which may be the first folder of sentence-transformers.
_NAMES = (CONFIG, INDEX, TORCH_INDEX, TOKENIZER_CONFIG, TOKENIZER_JSON, SPECIAL_TOKENS_MAP, ADDED_TOKENS, *VOCABULARIES)
_PARTS = "[0-9]_*/"
# modules.json and others belong to sentence-transformers, assets, task.json and preprocessor.json to keras-hub.
_FILES = (*_NAMES, *(_PARTS + name for name in _NAMES), CONFIG_NAME, SETTINGS, PL_BERT_CONFIG, ADAPTER, MODULES,
          "config_sentence_transformers.json", "sentence_*_config.json", f"{_PARTS}sentence_*_config.json",
          "[0-9]_Dense/model.safetensors", "[0-9]_Dense/pytorch_model.bin", "assets/tokenizer/*", "task.json",
          "preprocessor.json")
# The weights, and those that are downloaded if a repository has no others.
_WEIGHTS = ("model.safetensors", "model-*.safetensors", "0_*/model.safetensors", "0_*/model-*.safetensors",
            "model.weights.h5", "task.weights.h5")
_TORCH_WEIGHTS = (TORCH_WEIGHTS, "pytorch_model-*.bin", "0_*/pytorch_model.bin", "0_*/pytorch_model-*.bin",
                  "step_*.t7", "kokoro-*.pth")
_PATH = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>refs/pr/\d+|[^/@]+))?(/(?P<subfolder>.*))?")
_opened: dict[str, tuple[str, str]] = {}  # by path, the folder and the commit of what this process has opened


class HubPath(NamedTuple):
    """The parts of a path on the hub."""

    name: str
    revision: str | None  # branch, tag or commit; None for the main branch
    subfolder: str  # "" for the top of the repository


def parse(path: str) -> HubPath:
    """The parts of hf://org/name[@revision][/subfolder]. A slash of a revision is written as %2F."""
    match = _PATH.fullmatch(path[len(SCHEME):].rstrip("/"))
    subfolder = (match["subfolder"] or "") if match else ""
    if not match or (subfolder and {"", os.curdir, os.pardir} & {*subfolder.split("/")}):
        raise ValueError(f"a model on the hub is {SCHEME}org/name[@revision][/subfolder], for example "
                         f"{SCHEME}albert/albert-base-v2. "
                         f"Received: {path}")
    revision = match["revision"]
    return HubPath(match["name"], revision and urllib.parse.unquote(revision), subfolder)


def downloaded(path: str) -> str:
    """The folder of the model at a path, which is downloaded unless it is in the cache.

    In one process, a path keeps its first revision.
    """
    if path in _opened:
        return _opened[path][0]
    hub_path = parse(path)
    with _one_clear_error(path, "downloaded"):
        commit = os.path.basename(_downloaded(hub_path, _FILES))
        hub_path = hub_path._replace(revision=commit)
        folder = _with_weights(hub_path, _WEIGHTS) or _with_weights(hub_path, _TORCH_WEIGHTS)
    if folder is None:
        raise ValueError(_without_weights(path, hub_path))
    logging.info("%s is revision %s in %s", path, commit, folder)
    return _opened.setdefault(path, (folder, commit))[0]


def revision_of(path: str) -> str | None:
    """The commit of a path on the hub that this process has opened; None if it has not opened it."""
    return _opened[path][1] if path in _opened else None


def upload(folder: str, name: str, private: bool) -> str:
    """Uploads a folder to a repository (org/name), which is made if it is missing. Returns the URL of the commit."""
    from huggingface_hub import HfApi

    api = HfApi()
    with _one_clear_error(SCHEME + name, f"uploaded ({folder} is written, and stays)"):
        repository = api.create_repo(name, private=private, exist_ok=True).repo_id
        is_public = private and not api.repo_info(repository).private
        if not is_public:
            return api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload by albert_tf",
                                     ignore_patterns=[".*", "*.tmp"])
    raise ValueError(f"{SCHEME}{name} is public, and nothing was uploaded: set --nohub_private_repo to upload to it, "
                     "or choose another name")


def check_upload(name: str) -> None:
    """Raises ValueError if a name is not org/name."""
    hub_path = parse(SCHEME + name)
    if (hub_path.revision, hub_path.subfolder) != (None, ""):
        raise ValueError(f"the name of a repository to upload to is org/name, without revision and subfolder. "
                         f"Received: {name}")


def _downloaded(hub_path: HubPath, patterns: tuple[str, ...]) -> str:
    """The folder of a repository, with the files of the subfolder that match the patterns."""
    from huggingface_hub import snapshot_download

    start = glob.escape(hub_path.subfolder) + "/" if hub_path.subfolder else ""
    return snapshot_download(hub_path.name, revision=hub_path.revision,
                             allow_patterns=[start + pattern for pattern in patterns])


def _with_weights(hub_path: HubPath, patterns: tuple[str, ...]) -> str | None:
    """The folder of the model, with the files that match the patterns; None if there are none."""
    folder = os.path.join(_downloaded(hub_path, patterns), hub_path.subfolder).rstrip("/")
    return folder if any(glob.glob(os.path.join(glob.escape(folder), pattern)) for pattern in patterns) else None


def _without_weights(path: str, hub_path: HubPath) -> str:
    """The error message for a repository that has neither safetensors nor a preset."""
    from huggingface_hub import HfApi

    start = f"{hub_path.subfolder}/" if hub_path.subfolder else ""
    try:
        names = [name[len(start):] for name in HfApi().list_repo_files(hub_path.name, revision=hub_path.revision)
                 if name.startswith(start)]
    except Exception as error:
        logging.debug("the files of %s cannot be listed: %s", path, error)
        return f"{path}: its weights are not in the cache, and the hub cannot be reached: load it once with a network"
    names = [f"{name} ({OTHERS[name]})" if name in OTHERS else name for name in names]
    return (f"{path} has neither model.safetensors nor a keras-hub preset, but {', '.join(names[:20]) or 'no file'}. "
            "docs/checkpoints.md says which formats are read")


@contextlib.contextmanager
def _one_clear_error(path: str, done: str) -> Iterator[None]:
    """Turns all errors of huggingface_hub into a ValueError with the path and one line."""
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError as error:
        raise ValueError(f"{path} is gated: accept its terms on its page, and set HF_TOKEN to your token") from error
    except errors.RepositoryNotFoundError as error:
        raise ValueError(f"{path}: there is no such repository, or it is private: set HF_TOKEN to a token that may "
                         "read it") from error
    except errors.RevisionNotFoundError as error:
        raise ValueError(f"{path}: the repository has no such revision") from error
    except errors.LocalEntryNotFoundError as error:
        raise ValueError(f"{path} cannot be {done}: it is not in the cache, and the hub cannot be reached "
                         "(HF_ENDPOINT, HF_HUB_OFFLINE)") from error
    except Exception as error:  # versions of huggingface_hub have different HTTP libraries, and so different errors
        reason = next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
        raise ValueError(f"{path} cannot be {done}: {reason}") from error
