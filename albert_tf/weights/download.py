"""Downloads archives of models. Each is downloaded once and then read like a local archive.

pooch and Keras' get_file would replace _download alone: both write to local folders only, and an archive would be
in the cache before it is checked. get_file also has no timeout, and what a killed process has left counts as the file.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.parse
import urllib.request

import tensorflow as tf
from absl import logging

from albert_tf.utils.files import errors_naming_origin
from albert_tf.utils.outputs import output
from albert_tf.weights.archive import ENDINGS, check_archive

_TIMEOUT = 60.0  # seconds without any data


def downloaded(url: str) -> str:
    """The local path of an archive, which is downloaded if it is not in the cache.

    The cache is the folder in the environment variable TFHUB_CACHE_DIR (as for tensorflow_hub), or tfhub_modules in the
    system's folder for temporary files. A damaged archive is not kept.

    Args:
      url: URL of a .tar.gz file or of a TF-Hub module.

    Raises:
      ValueError: there is no archive at the URL, it is damaged, there is no network, or the server does not answer.
    """
    directory = os.environ.get("TFHUB_CACHE_DIR") or os.path.join(tempfile.gettempdir(), "tfhub_modules")
    path = os.path.join(directory, f"{hashlib.sha1(url.encode()).hexdigest()}.tar.gz")
    if not tf.io.gfile.exists(path):
        logging.info("downloading %s to %s", url, path)
        try:
            with output(path) as temporary:
                _download(_archive_url(url), temporary)
                with errors_naming_origin(url, temporary):
                    check_archive(temporary)
        except (OSError, http.client.HTTPException, tf.errors.OpError, ValueError) as error:
            raise ValueError(f"{url} cannot be downloaded: {error}") from error
    return path


def _archive_url(url: str) -> str:
    """The URL of the archive. A TF-Hub module's own URL is that of its page, unless a format is added."""
    parts = urllib.parse.urlparse(url)
    if parts.path.endswith(ENDINGS):
        return url
    query = [*urllib.parse.parse_qsl(parts.query), ("tf-hub-format", "compressed")]
    return parts._replace(query=urllib.parse.urlencode(query)).geturl()


def _download(url: str, path: str) -> None:
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response, tf.io.gfile.GFile(path, "wb") as file:
        shutil.copyfileobj(response, file)
