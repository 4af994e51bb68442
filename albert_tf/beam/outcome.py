"""How a pipeline ended: its result, or the user's mistakes, as files in its work folder."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from albert_tf.utils.files import names_in, read_bytes
from albert_tf.utils.json_files import read_json_object
from albert_tf.utils.outputs import write_text


class Outcome:
    """Files through which workers report to the process that runs the pipeline.

    Args:
      work: folder of the pipeline's files. All workers must be able to read and write it.
    """

    def __init__(self, work: str):
        self._result_file, self._mistakes = os.path.join(work, "result.json"), os.path.join(work, "mistakes")

    def note_mistake(self, name: str, message: str) -> None:
        """Stores the message of a user's error in a file.

        Raising the error would make the runner retry, and hide the message.

        Args:
          name: a file's name, such as BatchPlace.name. The mistake whose name is first is reported.
          message: the error message.
        """
        write_text(os.path.join(self._mistakes, name), message)

    def check_no_mistake(self) -> None:
        """Raises a ValueError with the first stored error, if there is one."""
        if names := names_in(self._mistakes):
            raise ValueError(read_bytes(os.path.join(self._mistakes, min(names))).decode())

    def write_result(self, **result) -> None:
        """Stores the result of the pipeline, JSON values by name."""
        write_text(self._result_file, json.dumps(result))

    def result(self) -> dict[str, Any]:
        """The result of the pipeline.

        Raises:
          ValueError: a mistake was stored.
          OSError: no result was stored.
        """
        self.check_no_mistake()
        if not tf.io.gfile.exists(self._result_file):
            raise OSError("the runner lost or repeated elements: the pipeline ended without a result")
        return read_json_object(self._result_file)
